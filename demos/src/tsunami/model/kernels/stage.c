// The two stages of a time step, one thread for each cell of a region of the block; the metric has the rows' values one
// kind after the other. The host's kernel uses `nx`.
// Every operation stands in the order of `face.rs` and `scheme`, which say what it means, so that results agree to
// the last bit; a face is computed for both of its cells, from the same numbers.

#define STEEPNESS 1.5
#define TINY 1e-100

// A cell seen from a face: depth, surface, velocity through the face and along it.
typedef struct {
    f64 h, eta, normal, along;
} Cell;

// A cell: depth, surface, velocities eastward and northward.
typedef struct {
    f64 h, eta, u, v;
} Water;

// The flow through a face; momentum through it less the pressure on its lower and on its higher side.
typedef struct {
    f64 mass, lower, higher, along;
} Flux;

typedef struct {
    f64 h, hu, hv;
} Updated;

// The smaller of two numbers, the second if either is NaN.
DEVICE_FUNCTION f64 smaller(f64 a, f64 b)
{
    return a < b ? a : b;
}

DEVICE_FUNCTION f64 limited(f64 backward, f64 forward)
{
    f64 mean = 0.5 * (backward + forward);
    backward = STEEPNESS * backward;
    forward = STEEPNESS * forward;
    f64 rising = larger(smaller(smaller(backward, forward), mean), 0.0);
    f64 falling = smaller(larger(larger(backward, forward), mean), 0.0);
    return rising + falling;
}

DEVICE_FUNCTION f64 moved(f64 before, f64 centre, f64 after, f64 offset)
{
    return centre + offset * limited(centre - before, after - centre);
}

DEVICE_FUNCTION Cell extrapolated(Cell before, Cell cell, Cell after, f64 offset)
{
    Cell at;
    at.h = moved(before.h, cell.h, after.h, offset);
    at.eta = moved(before.eta, cell.eta, after.eta, offset);
    at.normal = moved(before.normal, cell.normal, after.normal, offset);
    at.along = moved(before.along, cell.along, after.along, offset);
    return at;
}

DEVICE_FUNCTION Flux face_flux(Cell before, Cell lower, Cell higher, Cell after)
{
    Cell low = extrapolated(before, lower, higher, 0.5);
    Cell high = extrapolated(lower, higher, after, -0.5);
    f64 bed = larger(low.eta - low.h, high.eta - high.h);
    f64 h_low = larger(low.eta - bed, 0.0);
    f64 h_high = larger(high.eta - bed, 0.0);

    f64 c_low = sqrt(GRAVITY * h_low);
    f64 c_high = sqrt(GRAVITY * h_high);
    f64 slowest = smaller(smaller(low.normal - c_low, high.normal - c_high), 0.0);
    f64 fastest = larger(larger(low.normal + c_low, high.normal + c_high), 0.0);
    f64 per_range = 1.0 / larger(fastest - slowest, TINY);
    f64 skew = 0.5 * (fastest + slowest) * per_range;
    f64 spread = -(fastest * slowest) * per_range;

    f64 q_low = h_low * low.normal;
    f64 q_high = h_high * high.normal;
    f64 pressure_low = 0.5 * GRAVITY * (h_low * h_low);
    f64 pressure_high = 0.5 * GRAVITY * (h_high * h_high);
    f64 m_low = q_low * low.normal + pressure_low;
    f64 m_high = q_high * high.normal + pressure_high;

    f64 outflow = (fastest * h_low) * (low.normal - slowest);
    f64 inflow = (-slowest * h_high) * (fastest - high.normal);
    f64 mass = (outflow - inflow) * per_range;
    f64 momentum = 0.5 * (m_low + m_high) - skew * (m_high - m_low) - spread * (q_high - q_low);
    Flux flux;
    flux.mass = mass;
    flux.lower = momentum - pressure_low;
    flux.higher = momentum - pressure_high;
    flux.along = mass * (mass > 0.0 ? low.along : high.along);
    return flux;
}

DEVICE_FUNCTION Cell across(Water water)
{
    Cell cell = {water.h, water.eta, water.u, water.v};
    return cell;
}

DEVICE_FUNCTION Cell beside(Water water)
{
    Cell cell = {water.h, water.eta, water.v, water.u};
    return cell;
}

DEVICE_FUNCTION Water load(GLOBAL const f64 *h, GLOBAL const f64 *hu, GLOBAL const f64 *hv, GLOBAL const f64 *bed,
                           i64 cell, f64 dry)
{
    f64 inverse = per_depth(h[cell], dry);
    Water water = {h[cell], bed[cell] + h[cell], hu[cell] * inverse, hv[cell] * inverse};
    return water;
}

// One step of Euler's method of the cell with that index, in that row of the arrays.
DEVICE_FUNCTION Updated euler(GLOBAL const f64 *h, GLOBAL const f64 *hu, GLOBAL const f64 *hv, GLOBAL const f64 *bed,
                              GLOBAL const f64 *metric, i64 rows, i64 pitch, i64 line, i64 cell, f64 drag, f64 dry,
                              f64 dt)
{
    f64 side = metric[line], south = metric[rows + line], north = metric[2 * rows + line];
    f64 per_height = metric[3 * rows + line], coriolis = metric[4 * rows + line];
    f64 turning = metric[5 * rows + line];

    Water own = load(h, hu, hv, bed, cell, dry);
    Water w1 = load(h, hu, hv, bed, cell - 1, dry), w2 = load(h, hu, hv, bed, cell - 2, dry);
    Water e1 = load(h, hu, hv, bed, cell + 1, dry), e2 = load(h, hu, hv, bed, cell + 2, dry);
    Water s1 = load(h, hu, hv, bed, cell - pitch, dry), s2 = load(h, hu, hv, bed, cell - 2 * pitch, dry);
    Water n1 = load(h, hu, hv, bed, cell + pitch, dry), n2 = load(h, hu, hv, bed, cell + 2 * pitch, dry);
    Flux west = face_flux(across(w2), across(w1), across(own), across(e1));
    Flux east = face_flux(across(w1), across(own), across(e1), across(e2));
    Flux below = face_flux(beside(s2), beside(s1), beside(own), beside(n1));
    Flux above = face_flux(beside(s1), beside(own), beside(n1), beside(n2));
    f64 slope_x = limited(own.eta - w1.eta, e1.eta - own.eta);
    f64 slope_y = limited(own.eta - s1.eta, n1.eta - own.eta);

    f64 mass = side * (east.mass - west.mass) + (north * above.mass - south * below.mass);
    f64 eastward = side * (east.lower - west.higher) + (north * above.along - south * below.along)
        + GRAVITY * own.h * (side * slope_x);
    f64 northward = side * (east.along - west.along) + (north * above.lower - south * below.higher)
        + GRAVITY * own.h * (per_height * slope_y);
    f64 turn = coriolis + own.u * turning;
    f64 new_h = own.h - dt * mass;
    f64 new_hu = hu[cell] + dt * (turn * hv[cell] - eastward);
    f64 new_hv = hv[cell] - dt * (turn * hu[cell] + northward);

    f64 speed = sqrt(own.u * own.u + own.v * own.v);
    f64 square = new_h * new_h;
    f64 resistance = 2.0 * dt * drag * speed * new_h;
    f64 kept = 2.0 * square / (square + larger(square, dry * dry) + resistance);
    Updated updated = {new_h, new_hu * kept, new_hv * kept};
    return updated;
}

KERNEL void predict(GLOBAL const f64 *h, GLOBAL const f64 *hu, GLOBAL const f64 *hv, GLOBAL f64 *new_h,
                    GLOBAL f64 *new_hu, GLOBAL f64 *new_hv, GLOBAL const f64 *bed, GLOBAL const f64 *metric, i64 nx,
                    i64 ny, i64 pitch, i64 first_column, i64 first_row, i64 past_column, i64 past_row, f64 drag,
                    f64 dry, f64 dt)
{
    i64 column = first_column + GLOBAL_INDEX(0), row = first_row + GLOBAL_INDEX(1);
    if (column >= past_column || row >= past_row)
        return;
    i64 line = row + MARGIN, cell = line * pitch + column + MARGIN;
    Updated updated = euler(h, hu, hv, bed, metric, ny + 2 * MARGIN, pitch, line, cell, drag, dry, dt);
    new_h[cell] = updated.h;
    new_hu[cell] = updated.hu;
    new_hv[cell] = updated.hv;
}

KERNEL void correct(GLOBAL const f64 *h, GLOBAL const f64 *hu, GLOBAL const f64 *hv, GLOBAL f64 *new_h,
                    GLOBAL f64 *new_hu, GLOBAL f64 *new_hv, GLOBAL const f64 *bed, GLOBAL const f64 *metric, i64 nx,
                    i64 ny, i64 pitch, i64 first_column, i64 first_row, i64 past_column, i64 past_row, f64 drag,
                    f64 dry, f64 dt)
{
    i64 column = first_column + GLOBAL_INDEX(0), row = first_row + GLOBAL_INDEX(1);
    if (column >= past_column || row >= past_row)
        return;
    i64 line = row + MARGIN, cell = line * pitch + column + MARGIN;
    Updated updated = euler(h, hu, hv, bed, metric, ny + 2 * MARGIN, pitch, line, cell, drag, dry, dt);
    new_h[cell] = 0.5 * (new_h[cell] + updated.h);
    new_hu[cell] = 0.5 * (new_hu[cell] + updated.hu);
    new_hv[cell] = 0.5 * (new_hv[cell] + updated.hv);
}
