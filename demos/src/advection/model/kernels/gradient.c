// Gradients, one thread for each level of each cell; as `gradient` in `scheme.rs`, in the same order.

#define EDGES 3

KERNEL void gradient(GLOBAL const f64 *tracer, GLOBAL f64 *x, GLOBAL f64 *y, GLOBAL const i32 *cells,
                     GLOBAL const i32 *neighbours, GLOBAL const f64 *terms, i64 count, i64 levels, i64 limited)
{
    i64 level = GLOBAL_INDEX(0), place = GLOBAL_INDEX(1);
    if (level >= levels || place >= count)
        return;
    i64 at = cells[place] * levels + level;
    GLOBAL const i32 *others = neighbours + EDGES * place;
    // For each neighbour its weights along x and y and the offset of the edge.
    GLOBAL const f64 *of = terms + 4 * EDGES * place;

    f64 own = tracer[at], low = own, high = own, slope_x = 0.0, slope_y = 0.0;
    for (int edge = 0; edge < EDGES; edge++) {
        f64 there = tracer[others[edge] * levels + level];
        f64 difference = there - own;
        slope_x += of[4 * edge] * difference;
        slope_y += of[4 * edge + 1] * difference;
        low = fmin(low, there);
        high = fmax(high, there);
    }
    if (limited) {
        f64 part = 1.0;
        for (int edge = 0; edge < EDGES; edge++) {
            f64 step = slope_x * of[4 * edge + 2] + slope_y * of[4 * edge + 3];
            f64 room = step > 0.0 ? high - own : low - own;
            if (step != 0.0)
                part = fmin(part, room / step);
        }
        slope_x *= part;
        slope_y *= part;
    }
    x[at] = slope_x;
    y[at] = slope_y;
}
