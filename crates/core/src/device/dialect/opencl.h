// The portable kernel dialect in OpenCL C 1.2. `mod.rs` documents the names.

// a * b + c is rounded twice, as on the host.
#pragma OPENCL FP_CONTRACT OFF
#if defined(cl_khr_fp64) && __OPENCL_VERSION__ < 120
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif

#define KERNEL __kernel
#define GROUP_SIZE(threads) __attribute__((reqd_work_group_size(threads, 1, 1)))
#define GROUP_SIZE_RESIDENT(threads, groups) GROUP_SIZE(threads)
#define DEVICE_FUNCTION static inline
#define GLOBAL __global
#define LOCAL __local
#define RESTRICT restrict
#define CONSTANT_PARAMETER const
#define ALIGNED(bytes) __attribute__((aligned(bytes)))
#define GLOBAL_AT(type, address) ((__global type *)(address))

#define GLOBAL_INDEX(axis) ((long)get_global_id(axis))
#define GROUP_INDEX(axis) ((long)get_group_id(axis))
#define LOCAL_INDEX(axis) ((long)get_local_id(axis))
#define LOCAL_SIZE(axis) ((long)get_local_size(axis))
#define MULTIPLY_HIGH(a, b) mul_hi(a, b)
#define F32_OF_BITS(bits) as_float(bits)
#define F64_OF_BITS(bits) as_double(bits)
#define BITS_OF_F32(value) as_uint(value)
#define BITS_OF_F64(value) as_ulong(value)
// Compilers without the function skip it.
#if defined(HALOPORT_CORES) && defined(__has_builtin)
#if __has_builtin(__builtin_prefetch)
#define FETCH(address) __builtin_prefetch((const void *)(address))
#endif
#endif
#ifndef FETCH
#define FETCH(address) ((void)0)
#endif
#define BARRIER() barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)

typedef char i8;
typedef short i16;
typedef int i32;
typedef long i64;
typedef uchar u8;
typedef ushort u16;
typedef uint u32;
typedef ulong u64;
typedef float f32;
#ifdef cl_khr_fp64
typedef double f64;
#endif
typedef uint4 bytes16;
