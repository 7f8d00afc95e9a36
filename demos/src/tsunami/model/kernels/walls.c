// The margin behind the walls, one thread for each row and then for each column; as `reflections` in `block.rs`.

#define MARGIN 2
#define WEST 1
#define EAST 2
#define SOUTH 4
#define NORTH 8

KERNEL void walls(GLOBAL f64 *h, GLOBAL f64 *hu, GLOBAL f64 *hv, i64 nx, i64 ny, i64 pitch, i64 closed)
{
    i64 line = GLOBAL_INDEX(0);
    if (line >= nx + ny)
        return;
    int along_row = line < ny;
    i64 first = along_row ? (line + MARGIN) * pitch : line - ny + MARGIN;
    i64 step = along_row ? 1 : pitch;
    i64 last = first + ((along_row ? nx : ny) + 2 * MARGIN - 1) * step;
    i64 near_wall = closed & (along_row ? WEST : SOUTH), far_wall = closed & (along_row ? EAST : NORTH);
    f64 hu_sign = along_row ? -1.0 : 1.0, hv_sign = along_row ? 1.0 : -1.0;
    for (i64 ghost = 0; ghost < MARGIN; ghost++) {
        i64 mirror = 2 * MARGIN - 1 - ghost;
        if (near_wall) {
            i64 to = first + ghost * step, from = first + mirror * step;
            h[to] = h[from];
            hu[to] = hu_sign * hu[from];
            hv[to] = hv_sign * hv[from];
        }
        if (far_wall) {
            i64 to = last - ghost * step, from = last - mirror * step;
            h[to] = h[from];
            hu[to] = hu_sign * hu[from];
            hv[to] = hv_sign * hv[from];
        }
    }
}
