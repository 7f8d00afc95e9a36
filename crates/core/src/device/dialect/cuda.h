// The portable kernel dialect in CUDA C++. `mod.rs` documents the names.

#define KERNEL extern "C" __global__
#define GROUP_SIZE(threads) __launch_bounds__(threads)
// Turing holds fewer threads, and more registers for each.
#if __CUDA_ARCH__ >= 800
#define GROUP_SIZE_RESIDENT(threads, groups) __launch_bounds__(threads, groups)
#else
#define GROUP_SIZE_RESIDENT(threads, groups) __launch_bounds__(threads)
#endif
#define DEVICE_FUNCTION static __device__ __forceinline__
#define GLOBAL
#define LOCAL __shared__
#define RESTRICT __restrict__
#define CONSTANT_PARAMETER const __grid_constant__
#define ALIGNED(bytes) __attribute__((aligned(bytes)))

// `axis` is a literal 0, 1 or 2, so that the compiler makes the choice.
#define HALOPORT_AXIS(of, axis) ((long)((axis) == 0 ? (of).x : (axis) == 1 ? (of).y : (of).z))
#define GROUP_INDEX(axis) HALOPORT_AXIS(blockIdx, axis)
#define LOCAL_INDEX(axis) HALOPORT_AXIS(threadIdx, axis)
#define LOCAL_SIZE(axis) HALOPORT_AXIS(blockDim, axis)
#define GLOBAL_INDEX(axis) (GROUP_INDEX(axis) * LOCAL_SIZE(axis) + LOCAL_INDEX(axis))
#define MULTIPLY_HIGH(a, b) __umulhi(a, b)
#define F32_OF_BITS(bits) __uint_as_float(bits)
#define F64_OF_BITS(bits) __longlong_as_double((long long)(bits))
#define BITS_OF_F32(value) __float_as_uint(value)
#define BITS_OF_F64(value) ((u64)__double_as_longlong(value))
#define FETCH(address) ((void)0)
#define BARRIER() __syncthreads()

static_assert(sizeof(long) == 8, "a `long` of the dialect has 64 bits");

typedef signed char i8;
typedef short i16;
typedef int i32;
typedef long i64;
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long u64;
typedef float f32;
typedef double f64;
typedef uint4 bytes16;

// The pointer to an address in global memory: the compiler emits loads and stores of global memory through it. With
// `__builtin_assume(__isGlobal(pointer))` it does not everywhere: it may move the promise away from the access.
#define GLOBAL_AT(type, address) ((type *)__cvta_global_to_generic(address))
