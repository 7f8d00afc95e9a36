// Raises the largest wave height, one thread for each cell; as `raise_largest` in `survey.rs`.

#define MARGIN 2

KERNEL void raise_largest(GLOBAL const f64 *h, GLOBAL const f64 *bed, GLOBAL f64 *largest, i64 nx, i64 ny, i64 pitch)
{
    i64 column = GLOBAL_INDEX(0), row = GLOBAL_INDEX(1);
    if (column >= nx || row >= ny)
        return;
    i64 cell = (row + MARGIN) * pitch + column + MARGIN;
    f64 height = h[cell] + (bed[cell] < 0.0 ? bed[cell] : 0.0);
    if (height > largest[cell])
        largest[cell] = height;
}
