// The largest rate and the smallest depth of each row, one thread for each row; as `max_rate` in
// `scheme/physics.rs`. Neither depends on the order of the cells.

// Cells shallower than this many metres count twice.
#define DRAINABLE_DEPTH 100.0

KERNEL void extremes(GLOBAL const f64 *h, GLOBAL const f64 *hu, GLOBAL const f64 *hv, GLOBAL const f64 *bed,
                     GLOBAL const f64 *metric, GLOBAL f64 *found, i64 nx, i64 ny, i64 pitch, f64 dry)
{
    i64 row = GLOBAL_INDEX(0);
    if (row >= ny)
        return;
    i64 rows = ny + 2 * MARGIN, line = row + MARGIN, first = line * pitch + MARGIN;
    f64 side = metric[line], ends = larger(metric[rows + line], metric[2 * rows + line]);
    f64 rate = 0.0, lowest = h[first];
    for (i64 cell = first; cell < first + nx; cell++) {
        f64 inverse = per_depth(h[cell], dry);
        f64 wave = sqrt(GRAVITY * h[cell]);
        f64 across = fabs(hu[cell] * inverse) + wave;
        f64 up = fabs(hv[cell] * inverse) + wave;
        f64 weight = h[cell] < DRAINABLE_DEPTH ? 2.0 : 1.0;
        rate = larger(weight * (across * side + up * ends), rate);
        lowest = fmin(lowest, h[cell]);
    }
    found[row] = rate;
    found[ny + row] = lowest;
}
