#include "src/cuda_flash.h"

#include <fmt/format.h>

#include "kernels/flash_plan.h"
#include "src/cuda_handles.h"
#include "src/error.h"

namespace tallsketch {

void require_flash(const SketchSpec& spec) {
  require(spec.family == SketchFamily::kBlockPerm, ErrorKind::kUsage,
          "--kernel flash applies --sketch blockperm only; use --kernel auto");
  require(spec.precision == SketchPrecision::kFp32, ErrorKind::kUsage,
          "--kernel flash has --precision fp32 alone; use --kernel auto");
  int device = 0, shared = 0;
  check(cudaGetDevice(&device));
  check(cudaDeviceGetAttribute(&shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
  require(cuda::flash_shared_bytes(spec) <= shared, ErrorKind::kUsage,
          fmt::format("--kernel flash keeps {} sketch rows and the {} nonzeros of its rows in shared memory, {} bytes; "
                      "this GPU has {}: use a smaller --block-rows or --block-nnz",
                      spec.block_rows, spec.block_nnz, cuda::flash_shared_bytes(spec), shared));
}

}  // namespace tallsketch
