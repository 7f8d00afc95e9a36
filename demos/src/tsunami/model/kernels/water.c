// Functions of several kernels; in Rust in `face.rs`, with the sources of the formulas.

// Standard gravity, m/s^2.
#define GRAVITY 9.80665
// Width of the margin of an array on every side, cells.
#define MARGIN 2

// The larger of two numbers, the second if either is NaN.
DEVICE_FUNCTION f64 larger(f64 a, f64 b)
{
    return a > b ? a : b;
}

// One over the depth where it exceeds `dry` metres, and nothing at all where there is no water.
DEVICE_FUNCTION f64 per_depth(f64 h, f64 dry)
{
    f64 square = h * h;
    return 2.0 * h / (square + larger(square, dry * dry));
}
