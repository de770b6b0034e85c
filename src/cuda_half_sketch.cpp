#include "src/cuda_half_sketch.h"

#include <vector>

#include "kernels/sketch_cuda.h"
#include "src/communicator.h"
#include "src/cuda_strip.h"
#include "src/device_row_limits.h"
#include "src/half_factors.h"

namespace tallsketch {

std::int64_t HalfSketcher::bytes(const SketchSpec& spec, std::int64_t n) { return spec.d * cuda::device_pitch(n) * 2; }

HalfSketcher::HalfSketcher(const SketchSpec& spec, std::int64_t n, ScalingChoice scaling, const CudaStream& stream)
    : spec_(spec), n_(n), pitch_(cuda::device_pitch(n)), scaling_(scaling), sketch_(spec.d * pitch_), losses_(1) {
  check(cudaMemsetAsync(sketch_.data(), 0, sketch_.bytes(), stream.get()));
  check(cudaMemsetAsync(losses_.data(), 0, losses_.bytes(), stream.get()));
  if (!scales()) {
    set_factors(std::vector<double>(static_cast<std::size_t>(n), fixed_half_factor(spec, scaling)), stream);
    return;
  }
  column_max_ = DeviceBuffer<float>(n);
  column_squares_ = DeviceBuffer<double>(n);
  check(cudaMemsetAsync(column_max_.data(), 0, column_max_.bytes(), stream.get()));
  check(cudaMemsetAsync(column_squares_.data(), 0, column_squares_.bytes(), stream.get()));
}

bool HalfSketcher::scales() const { return scales_by_data(spec_, scaling_); }

void HalfSketcher::measure(const SlabView& a, const CudaStream& stream) {
  check(cuda::column_statistics(a, column_max_.data(), column_squares_.data(), stream.get()));
}

void HalfSketcher::choose_factors(const Communicator& comm, const CudaStream& stream) {
  std::vector<float> largest(static_cast<std::size_t>(n_));
  std::vector<double> squares(largest.size());
  comm.together([&] {
    check(
        cudaMemcpyAsync(largest.data(), column_max_.data(), column_max_.bytes(), cudaMemcpyDeviceToHost, stream.get()));
    check(cudaMemcpyAsync(squares.data(), column_squares_.data(), column_squares_.bytes(), cudaMemcpyDeviceToHost,
                          stream.get()));
    stream.synchronize();
  });
  comm.max(largest.data(), n_);
  comm.sum(squares.data(), n_);
  std::vector<double> factor;
  for (std::size_t j = 0; j < largest.size(); ++j)
    factor.push_back(half_factor_of_column(spec_, largest[j], squares[j]));
  comm.together([&] { set_factors(factor, stream); });
}

void HalfSketcher::set_factors(const std::vector<double>& factor, const CudaStream& stream) {
  std::vector<float> padded(factor.begin(), factor.end());
  padded.resize(static_cast<std::size_t>(pitch_), 0.0F);
  std::vector<double> inverse;
  for (const double value : factor) inverse.push_back(1 / value);
  factor_ = DeviceBuffer<float>(pitch_);
  inverse_ = DeviceBuffer<double>(n_);
  check(cudaMemcpyAsync(factor_.data(), padded.data(), factor_.bytes(), cudaMemcpyHostToDevice, stream.get()));
  check(cudaMemcpyAsync(inverse_.data(), inverse.data(), inverse_.bytes(), cudaMemcpyHostToDevice, stream.get()));
  stream.synchronize();
}

void HalfSketcher::add(const SlabView& a, const std::uint32_t* entries, const CudaStream& stream) {
  check(cuda::scatter_half(spec_, a, entries, factor_.data(), view(), losses_.data(), stream.get()));
}

void HalfSketcher::finish(const SketchView<float>& sketch, const CudaStream& stream) {
  const ElementType type = spec_.precision == SketchPrecision::kFp16 ? ElementType::kFloat16 : ElementType::kBfloat16;
  check(cuda::widen_half(type, view(), inverse_.data(), sketch, stream.get()));
}

RoundingLosses HalfSketcher::losses(const CudaStream& stream) const {
  RoundingLosses found;
  check(cudaMemcpyAsync(&found, losses_.data(), sizeof found, cudaMemcpyDeviceToHost, stream.get()));
  stream.synchronize();
  return found;
}

}  // namespace tallsketch
