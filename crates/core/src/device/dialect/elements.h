// The element types that the compilers do not have as numbers, as they are stored.

typedef struct { u64 low, high; } u128;
typedef struct { u64 low, high; } i128;
// 16-bit floats are stored and moved as they are; kernels convert them before they compute.
typedef u16 f16;
typedef u16 bf16;
typedef struct { f32 real, imaginary; } complex32;
#if !defined(__OPENCL_VERSION__) || defined(cl_khr_fp64)
typedef struct { f64 real, imaginary; } complex64;
#endif
