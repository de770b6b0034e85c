#include "src/cuda_sketch_statistics.h"

#include "kernels/sketch_cuda.h"

namespace tallsketch {

template <class T>
SketchLook SketchStatistics::look(const SketchView<T>& sketch, const CudaStream& stream) {
  // On the device: the count of what is not finite, the largest magnitudes, the squares, which nobody asks for.
  const std::int64_t cols = sketch.cols, doubles = 1 + 2 * cols;
  auto* const count = room_for<unsigned long long>(doubles, device_);
  auto* const largest = reinterpret_cast<T*>(count + 1);
  auto* const squares = reinterpret_cast<double*>(count + 1 + cols);
  check(cudaMemsetAsync(count, 0, static_cast<std::size_t>(doubles) * 8, stream.get()));
  const SlabView slab{sketch.data, sketch.rows, cols, sketch.pitch, kElementType<T>, 0};
  check(cuda::column_statistics(slab, largest, squares, stream.get()));
  check(cuda::count_non_finite(sketch, count, stream.get()));
  const auto* const host = room_for<unsigned long long>(1 + cols, host_);
  check(cudaMemcpyAsync(host_.data(), count, static_cast<std::size_t>(1 + cols) * 8, cudaMemcpyDeviceToHost,
                        stream.get()));
  stream.synchronize();
  const auto* const host_largest = reinterpret_cast<const T*>(host + 1);
  return {{host_largest, host_largest + cols}, *host == 0};
}

template SketchLook SketchStatistics::look(const SketchView<float>&, const CudaStream&);
template SketchLook SketchStatistics::look(const SketchView<double>&, const CudaStream&);

}  // namespace tallsketch
