// The only macros of the project: what a compiler must be told and C++ cannot say.
// Used by every header that host and device share. Needs nothing.
#pragma once

/// Marks a function that host and device both compile.
#if defined(__CUDACC__)
#define TALLSKETCH_HOST_DEVICE __host__ __device__ __forceinline__
#else
#define TALLSKETCH_HOST_DEVICE inline __attribute__((always_inline))
#endif

/// Marks a hot host loop that is compiled for AVX-512, AVX2 and the baseline; the loader picks (docs/decisions/0004).
/// Sanitizers instrument the resolver before they are ready, so their builds keep one version.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__CUDACC__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define TALLSKETCH_VECTOR_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define TALLSKETCH_VECTOR_CLONES
#endif
