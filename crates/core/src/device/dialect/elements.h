// The element types that no compiler of the dialect has as numbers, as it stores them.

typedef struct { u64 low, high; } u128;
typedef struct { u64 low, high; } i128;
// 16-bit floats are stored and moved as they are; what computes with them converts them first.
typedef u16 f16;
typedef u16 bf16;
typedef struct { f32 real, imaginary; } complex32;
#if !defined(__OPENCL_VERSION__) || defined(cl_khr_fp64)
typedef struct { f64 real, imaginary; } complex64;
#endif
