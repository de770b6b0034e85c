// What a sketch on the device says of the range of the data, with memory that is kept from one look to the next.
// Held by cuda_backend; used by cuda_reduced_solver and cuda_half_reduce.
#pragma once

#include <vector>

#include "kernels/views.h"
#include "src/cuda_handles.h"

namespace tallsketch {

struct SketchLook {
  std::vector<double> largest;  // magnitude of every column; NaN is passed over
  bool finite = true;           // all elements
};

class SketchStatistics {
 public:
  /// Waits for the stream. T is float or double.
  template <class T>
  SketchLook look(const SketchView<T>& sketch, const CudaStream& stream);

 private:
  DeviceBuffer<std::byte> device_;
  PinnedBuffer host_;
};

}  // namespace tallsketch
