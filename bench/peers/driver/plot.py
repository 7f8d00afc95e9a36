"""Draws, for every case, each contestant's time as a ratio to the packed persistent messages, as SVG."""

import math
from xml.sax.saxutils import escape

import jobs
import tables

LEFT, PANEL, GAP, ROW, TOP, HEAD = 300, 128, 10, 17, 64, 54
LEAST, MOST = 0.03, 15.0
NARROWEST = 900
COLOURS = {"Haloport": "#c2410c", "C:": "#64748b", "limit": "#111827"}
OTHERS = "#1d4ed8"


def write(document, path):
    """Draws the figures of the first state that was measured, with the largest eager limit."""
    reports = document["reports"]
    eager = max(report["eager"] for report in reports)
    state = next(caches for caches in jobs.CACHES if caches in reports[0]["measured"])
    rows = [
        (title, tables.Results(reports, problem, "turns" if problem == "transposes" else state, eager, split))
        for title, problem, split in [
            ("split along the slowest axis", "boxes", 0),
            ("split along the fastest axis", "boxes", 2),
            ("two halves of a mesh: levels / place in memory / fields", "meshes", None),
            ("two halves of a mesh, halos added to their owners", "sums", None),
            ("transposes: cells / fields, ÷ MPI_Alltoallw", "transposes", None),
        ]
    ]
    rows = [(title, results) for title, results in rows if results.cases()]
    width = max(NARROWEST, LEFT + max(len(results.cases()) for _, results in rows) * (PANEL + GAP) + 10)
    body, top = [], TOP
    for title, results in rows:
        top = _band(body, title, results, top)
    text = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {top}" width="{width}" height="{top}" '
        'font-family="Helvetica, Arial, sans-serif" font-size="11">',
        f'<rect width="{width}" height="{top}" fill="#ffffff"/>',
        '<text x="12" y="24" font-size="16" font-weight="bold">Halo exchange on 2 MPI ranks of one node: time ÷ packed '
        "persistent messages</text>",
        '<text x="12" y="42" fill="#475569">f64, three periodic axes; columns: local block / halo / fields; medians '
        "over the rounds of all jobs; less is better, the scale is logarithmic</text>",
        *body,
        "</svg>",
    ]
    with open(path, "w") as file:
        file.write("\n".join(text) + "\n")


def _band(body, title, results, top):
    """Draws one row of panels, and returns the top of the next."""
    contestants = [one for one in results.contestants() if one != results.yardstick()]
    begin, end = top + HEAD, top + HEAD + ROW * len(contestants)
    body.append(f'<text x="12" y="{top + 14}" font-size="13" font-weight="bold">{escape(title)}</text>')
    for at, one in enumerate(contestants):
        y = begin + ROW * at + ROW * 0.5
        weight = ' font-weight="bold"' if one.startswith("Haloport") else ""
        body.append(
            f'<text x="{LEFT - 8}" y="{y + 4}" text-anchor="end" fill="{_colour(one)}"{weight}>{escape(one)}</text>'
        )
    for column, case in enumerate(results.cases()):
        left = LEFT + column * (PANEL + GAP)
        body.append(f'<rect x="{left}" y="{begin}" width="{PANEL}" height="{end - begin}" fill="#f8fafc"/>')
        middle = left + PANEL / 2
        title = escape(case.replace("^3", "³").replace("/", " / "))
        body.append(
            f'<text x="{middle}" y="{begin - 18}" text-anchor="middle" font-weight="bold">{title}</text>'
        )
        for tick in (0.1, 0.3, 1, 3, 10):
            x = left + _place(tick)
            colour = "#94a3b8" if tick == 1 else "#e2e8f0"
            body.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{begin}" y2="{end}" stroke="{colour}"/>')
            body.append(
                f'<text x="{x:.1f}" y="{begin - 5}" text-anchor="middle" font-size="9" fill="#64748b">{tick}</text>'
            )
        for at, one in enumerate(contestants):
            _dot(body, results, case, one, left, begin + ROW * at + ROW * 0.5)
    return end + 26


def _dot(body, results, case, one, left, y):
    ratio = results.to_yardstick(case, one)
    if not ratio:
        return
    x, low, high = (left + _place(value) for value in ratio)
    colour = _colour(one)
    body.append(
        f'<line x1="{low:.1f}" x2="{high:.1f}" y1="{y}" y2="{y}" stroke="{colour}" stroke-width="2"/>'
    )
    body.append(f'<circle cx="{x:.1f}" cy="{y}" r="4" fill="{colour}"/>')
    # The figure stands beside the bar, on the side that has room.
    anchor, beside = (
        ("end", min(low, x - 4) - 3) if high > left + PANEL - 32 else ("start", max(high, x + 4) + 3)
    )
    body.append(
        f'<text x="{beside:.1f}" y="{y + 3.5}" text-anchor="{anchor}" font-size="9" fill="#334155">{ratio[0]:.2f}</text>'
    )


def _place(ratio):
    # What is subtracted may exceed a sample of few rounds.
    share = math.log(max(ratio, LEAST) / LEAST) / math.log(MOST / LEAST)
    return 4 + (PANEL - 8) * min(max(share, 0.0), 1.0)


def _colour(contestant):
    return next((colour for word, colour in COLOURS.items() if contestant.startswith(word)), OTHERS)
