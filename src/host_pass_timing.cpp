#include "kernels/normal_product_host.h"
#include "src/host_timing.h"
#include "src/sketch_timing.h"

namespace tallsketch {

PassTiming time_host_pass(const TimedShape& shape, int repeats, int threads) {
  const auto [m, n, r, type] = shape;
  const HostBuffer a = made_up_matrix(shape, threads);
  const std::vector<double> b(static_cast<std::size_t>(m * r), 1.0), x(static_cast<std::size_t>(n * r), 0.5);
  std::vector<double> gradient(x.size()), squares(static_cast<std::size_t>(r));
  HostBuffer scratch(host::normal_workspace_bytes(n, r, threads));
  const host::NormalWorkspace workspace{scratch.data(), scratch.bytes(), n, r, threads};
  const BesideFloor timing = time_beside_read_pass(a, repeats, threads, [&] {
    host::normal_begin(x.data(), workspace);
    host::normal_add({a.data(), m, n, n, type, 0}, {b.data(), m, r, r, ElementType::kFloat64, 0}, workspace);
    host::normal_end(workspace, gradient.data(), squares.data());
  });
  return {timing.floor, timing.job};
}

}  // namespace tallsketch
