"""Prints the tables, in Markdown, from the reports of all jobs."""

import statistics

import jobs

LIMITS = {
    "boxes": "limit: one pass of copies, paired",
    "meshes": "limit: one gather pass",
    "sums": "limit: one pass that adds",
    "transposes": "limit: one pass of copies",
}
OWN, CALLERS = "Haloport: its own fields", "Haloport: the caller's memory"
SHARED = f"{CALLERS}, shared"
MESSAGES = [f"{OWN}, MPI messages", f"{CALLERS}, MPI messages"]
FORTRAN = "Haloport from Fortran: the caller's memory"


class Results:
    """The results of the jobs with one kind of problem, state of the caches, eager limit and split."""

    def __init__(self, reports, problem, caches, eager, split=None):
        self.reports = [
            report
            for report in reports
            if report["eager"] == eager
            and caches in report["measured"]
            and (report["case"]["problem"], report["case"].get("split")) == (problem, split)
        ]
        self.problem = problem
        self.caches = caches

    def cases(self):
        return list(dict.fromkeys(jobs.name(report["case"]) for report in self.reports))

    def contestants(self):
        return list(dict.fromkeys(one for report in self.reports for one in report["measured"][self.caches]))

    def yardstick(self):
        """Returns the first contestant of every job, to which all others are compared."""
        return self.contestants()[0]

    def found(self, case, contestant):
        """Returns the figures of a contestant by group. Contestants of one group ran in the same jobs."""
        found = {}
        for report in self.reports:
            if jobs.name(report["case"]) == case and contestant in report["measured"][self.caches]:
                found.setdefault(report["group"], []).append(report["measured"][self.caches][contestant])
        return found

    def at_home(self, case, contestant):
        """Returns the figures of a contestant in the jobs of the first group that has it."""
        found = self.found(case, contestant)
        return next((found[group] for group in jobs.GROUPS if group in found), [])

    def median(self, case, contestant):
        """Returns the microseconds of an exchange."""
        return _median(summary["microseconds"] for summary in self.at_home(case, contestant))

    def to_yardstick(self, case, contestant):
        """Returns the ratio to the yardstick in the same rounds, with its extremes."""
        return _ratio(self.at_home(case, contestant), self.yardstick())

    def ratio(self, case, contestant, other):
        """Returns the ratio of two contestants over all jobs that have both."""
        return _ratio([one for group in self.found(case, contestant).values() for one in group], other)

    def handovers(self):
        """Returns the nanoseconds to write a line that the other core has just read, job by job."""
        return [statistics.median(report["handover"]) for report in self.reports if report.get("handover")]


def _ratio(summaries, other):
    """Returns the median over the jobs of their medians over the rounds, and the extremes."""
    ratios = [summary["ratio"].get(other) for summary in summaries]
    ratios = [ratio for ratio in ratios if ratio is not None]
    return (statistics.median(ratios), min(ratios), max(ratios)) if ratios else None


def print_all(document):
    """Prints every table of a document that `run` has written."""
    reports = document["reports"]
    settings = list(
        dict.fromkeys((report["case"]["problem"], report["case"].get("split"), report["eager"]) for report in reports)
    )
    settings.sort(key=lambda setting: (jobs.PROBLEMS.index(setting[0]), setting[1] or 0, setting[2]))
    for problem, split, eager in settings:
        for caches in jobs.CACHES:
            results = Results(reports, problem, caches, eager, split)
            if results.cases():
                _table(results, _title(problem, eager, split, caches))
                if caches != "cold":
                    _bounds(results)
    print()
    for name, reason in document["missing"].items():
        print(f"missing: {name}: {reason}")
    paths = {}
    for report in reports:
        for contestant, note in report["notes"].items():
            paths.setdefault(f"{contestant}: {note}", None)
    print("\nPaths and versions:\n")
    for line in paths:
        print(f"- {line}")


def _title(problem, eager, split, caches):
    what = {
        "boxes": f"Boxes split along the {[*jobs.AXES][0 if split == 0 else 1]} axis",
        "meshes": "Unstructured",
        "sums": "Unstructured, halos added to owners",
        "transposes": "Transposes",
    }[problem]
    words = {"written": f"{'halos' if problem == 'sums' else 'owned cells'} written", "turns": "unchanged, contestants in turns", "hot": "unchanged, caches hot",
             "cold": "unchanged, caches cold"}[caches]  # fmt: skip
    return f"{what}, {words}, eager limit of Open MPI {eager}"


def _table(results, title):
    cases = results.cases()
    print(f"\n### {title}\n\nMicroseconds per exchange, and the ratio to the first row in the same round.\n")
    print("| contestant | " + " | ".join(cases) + " | clean of raw samples |")
    print("| --- |" + " --- |" * (len(cases) + 1))
    for contestant in results.contestants():
        cells, clean, raw = [], 0, 0
        for case in cases:
            summaries = results.at_home(case, contestant)
            clean += sum(summary["clean"] for summary in summaries)
            raw += sum(summary["raw"] for summary in summaries)
            median, ratio = results.median(case, contestant), results.to_yardstick(case, contestant)
            cells.append(
                "–" if median is None else f"{_short(median)} ({f'{ratio[0]:.2f}' if ratio else '–'})"
            )
        print(f"| {contestant} | " + " | ".join(cells) + f" | {clean} of {raw} |")
    if nanoseconds := results.handovers():
        low, middle, high = min(nanoseconds), statistics.median(nanoseconds), max(nanoseconds)
        print(
            f"\nWriting a line that the other core had just read took {middle:.0f} ns ({low:.0f} to {high:.0f}, by job)."
        )


def _bounds(results):
    """Prints the ratios of Haloport to its limits and rivals."""
    cases, contestants = results.cases(), results.contestants()
    haloport = [one for one in contestants if one.startswith("Haloport")]
    by_hand = [one for one in contestants if one.startswith("C:") and "raw" not in one]
    rivals = [one for one in contestants if not one.startswith(("Haloport", "C:", "limit"))]
    yardstick = "MPI_Alltoallw" if results.problem == "transposes" else "packed persistent"
    pairs = [
        ("its own fields ÷ the limit", OWN, LIMITS[results.problem]),
        (f"the caller's memory ÷ {yardstick}", CALLERS, results.yardstick()),
        (f"the caller's memory, shared ÷ {yardstick}", SHARED, results.yardstick()),
        ("the caller's memory, shared ÷ its own fields", SHARED, OWN),
        (f"from Fortran ÷ {yardstick}", FORTRAN, results.yardstick()),
        *(
            (f"{one.removeprefix('Haloport: ')} ÷ {yardstick}", one, results.yardstick())
            for one in MESSAGES
        ),
    ]
    pairs = [pair for pair in pairs if pair[1] in contestants]
    print("\n| Haloport | " + " | ".join(cases) + " |")
    print("| --- |" + " --- |" * len(cases))
    for title, one, other in pairs:
        _row(title, [results.ratio(case, one, other) for case in cases])
    best = {case: _best(results, case, haloport) for case in cases}
    hand = {case: _best(results, case, by_hand) for case in cases}
    _row("its best ÷ the best of C", [best[case] and hand[case] and results.ratio(case, best[case], hand[case])
                                      for case in cases])  # fmt: skip
    yaxt = [one for one in rivals if one.startswith("YAXT")]
    theirs = {case: _best(results, case, yaxt) for case in cases}
    for title, one in [("its own fields", OWN), ("the caller's memory", CALLERS)] if yaxt else []:
        _row(
            f"{title} ÷ the best of YAXT",
            [theirs[case] and results.ratio(case, one, theirs[case]) for case in cases],
        )
    for rival in rivals:
        _row(f"{rival} ÷ its best", [best[case] and results.ratio(case, rival, best[case]) for case in cases])


def _row(title, ratios):
    cells = [
        "–" if not ratio else f"**{ratio[0]:.2f}** ({ratio[1]:.2f} to {ratio[2]:.2f})" for ratio in ratios
    ]
    print(f"| {title} | " + " | ".join(cells) + " |")


def _best(results, case, contestants):
    medians = {one: results.median(case, one) for one in contestants}
    medians = {one: median for one, median in medians.items() if median is not None}
    return min(medians, key=medians.get, default=None)


def _median(values):
    values = [value for value in values if value is not None]
    return statistics.median(values) if values else None


def _short(value):
    return f"{value:.1f}" if value < 100 else f"{value:.0f}"
