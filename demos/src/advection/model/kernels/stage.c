// The two stages of a time step, one thread for each level of each cell; as `advance` in `scheme.rs`, in the same
// order.

#define EDGES 3

// The tracer `at` a level of the cell at `place`, advanced by one step of Euler's method.
DEVICE_FUNCTION f64 advanced(GLOBAL const f64 *tracer, GLOBAL const f64 *x, GLOBAL const f64 *y,
                             GLOBAL const i32 *upwind, GLOBAL const f64 *terms, GLOBAL const f64 *scale, i64 levels,
                             i64 level, i64 place, i64 at)
{
    f64 outflow = 0.0;
    for (int edge = 0; edge < EDGES; edge++) {
        // The flux, and the offset of the edge from the upwind cell.
        GLOBAL const f64 *of = terms + 3 * (EDGES * place + edge);
        i64 from = upwind[EDGES * place + edge] * levels + level;
        f64 there = tracer[from] + x[from] * of[1] + y[from] * of[2];
        outflow += of[0] * there;
    }
    return tracer[at] - scale[place] * outflow;
}

KERNEL void predict(GLOBAL const f64 *tracer, GLOBAL const f64 *x, GLOBAL const f64 *y, GLOBAL f64 *output,
                    GLOBAL const i32 *cells, GLOBAL const i32 *upwind, GLOBAL const f64 *terms,
                    GLOBAL const f64 *scale, i64 count, i64 levels)
{
    i64 level = GLOBAL_INDEX(0), place = GLOBAL_INDEX(1);
    if (level >= levels || place >= count)
        return;
    i64 at = cells[place] * levels + level;
    output[at] = advanced(tracer, x, y, upwind, terms, scale, levels, level, place, at);
}

KERNEL void correct(GLOBAL const f64 *tracer, GLOBAL const f64 *x, GLOBAL const f64 *y, GLOBAL f64 *output,
                    GLOBAL const i32 *cells, GLOBAL const i32 *upwind, GLOBAL const f64 *terms,
                    GLOBAL const f64 *scale, i64 count, i64 levels)
{
    i64 level = GLOBAL_INDEX(0), place = GLOBAL_INDEX(1);
    if (level >= levels || place >= count)
        return;
    i64 at = cells[place] * levels + level;
    output[at] = 0.5 * (output[at] + advanced(tracer, x, y, upwind, terms, scale, levels, level, place, at));
}
