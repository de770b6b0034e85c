// The few PTX instructions of the kernels that TMA feeds, by name: mbarriers, bulk copies, tensor copies, cluster
// barriers, 16-byte loads. Device only; included by strip_engine.cu, entry_table.cu and normal_product.cu.
// Source: PTX ISA 8.0, sections mbarrier, cp.async.bulk, barrier.cluster.
#pragma once

#include <cstdint>

#include <cuda.h>

namespace tallsketch::cuda {

/// Address in the shared window of the CTA, as PTX wants it.
__device__ inline std::uint32_t shared_address(const void* p) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(p));
}

}  // namespace tallsketch::cuda

// Compiled for compute capability 9.0 and above only.
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

namespace tallsketch::cuda {

__device__ inline void barrier_init(std::uint32_t barrier, unsigned arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals));
}

/// Makes initialised barriers visible to the cluster and to the copy engine.
__device__ inline void barrier_init_fence() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

__device__ inline void barrier_expect_bytes(std::uint32_t barrier, std::uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

__device__ inline void barrier_wait(std::uint32_t barrier, std::uint32_t parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@done bra passed;\n"
      "bra again;\n"
      "passed:\n"
      "}" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

__device__ inline void barrier_arrive(std::uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

/// Arrives at the barrier at the same place in CTA `rank` of the cluster. Default semantics: with .release.cluster
/// every arrival costs a memory barrier (2.9 ms instead of 1.9 in the probe), and consumers only read.
__device__ inline void barrier_arrive_in(std::uint32_t barrier, std::uint32_t rank) {
  asm volatile(
      "{\n"
      ".reg .b32 remote;\n"
      "mapa.shared::cluster.u32 remote, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [remote];\n"
      "}" ::"r"(barrier),
      "r"(rank)
      : "memory");
}

__device__ inline std::uint32_t cluster_rank() {
  std::uint32_t rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

__device__ inline void cluster_synchronise() {
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}

/// Copies bytes (a multiple of 16) from global to shared memory; completes on the barrier.
__device__ inline void copy_bulk(std::uint32_t to, const void* from, std::uint32_t bytes, std::uint32_t barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
               "l"(from), "r"(bytes), "r"(barrier)
               : "memory");
}

/// Copies the box at (column, row) of the tensor to the same place in every CTA of `mask`; outside it reads as zeros.
__device__ inline void copy_box(std::uint32_t to, const CUtensorMap* map, int column, int row, std::uint32_t barrier,
                                std::uint16_t mask) {
  if (mask == 1) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(
            to),
        "l"(map), "r"(column), "r"(row), "r"(barrier)
        : "memory");
  } else {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, "
        "{%2, "
        "%3}], [%4], %5;" ::"r"(to),
        "l"(map), "r"(column), "r"(row), "r"(barrier), "h"(mask)
        : "memory");
  }
}

/// A place in a ring of stages, and the parity of the barrier phase that it is in.
struct Ring {
  std::uint32_t stage = 0, parity = 0;
  __device__ void advance(std::uint32_t stages) {
    if (++stage == stages) {
      stage = 0;
      parity ^= 1;
    }
  }
};

__device__ inline uint4 load_16_bytes(std::uint32_t address) {
  uint4 words;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w)
               : "r"(address));
  return words;
}

__device__ inline uint2 load_8_bytes(std::uint32_t address) {
  uint2 words;
  asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(words.x), "=r"(words.y) : "r"(address));
  return words;
}

}  // namespace tallsketch::cuda

#endif
