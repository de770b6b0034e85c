#include "kernels/sketch_host.h"
#include "src/error.h"
#include "src/host_timing.h"
#include "src/sketch_timing.h"

namespace tallsketch {

SketchTiming time_host_sketch(const SketchSpec& spec, const TimedShape& shape, int repeats, int threads) {
  const auto [m, n, r, type] = shape;
  require(type == ElementType::kFloat32, ErrorKind::kUsage, "--dtype f2, bf2 and f8 are measured on GPUs only");
  const HostBuffer a = made_up_matrix(shape, threads);
  const std::vector<float> b(static_cast<std::size_t>(m * r), 1.0F);
  HostBuffer scratch(host::sketch_workspace_bytes(spec, n, r, threads));
  HostBuffer out(spec.d * (n + r) * sketch_element_size(spec.precision));
  const host::SketchWorkspace workspace{scratch.data(), scratch.bytes(), n, r, threads};
  const SlabView slab{a.data(), m, n, n, type, 0}, b_slab{b.data(), m, r, r, ElementType::kFloat32, 0};
  const auto sketch_in = [&]<class T>(T* sums) {
    host::sketch_begin(spec, n, r, workspace);
    host::sketch_add(spec, slab, b_slab, workspace);
    host::sketch_end(spec, workspace, SketchView<T>{sums, spec.d, n + r, n + r});
  };
  const BesideFloor timing = time_beside_read_pass(a, repeats, threads, [&] {
    if (spec.precision == SketchPrecision::kFp64) {
      sketch_in(reinterpret_cast<double*>(out.data()));
    } else {
      sketch_in(reinterpret_cast<float*>(out.data()));
    }
  });
  SketchTiming result;
  result.floor = timing.floor;
  result.complete = timing.job;
  return result;
}

}  // namespace tallsketch
