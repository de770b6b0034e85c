#include <algorithm>
#include <cmath>

#include <cblas.h>

#include "src/error.h"
#include "src/host_timing.h"
#include "src/normals.h"
#include "src/sketch_timing.h"

namespace tallsketch {

SketchTiming time_host_gaussian(std::int64_t d, std::uint64_t seed, const TimedShape& shape, int repeats, int threads) {
  const std::int64_t m = shape.m, n = shape.n;
  require(shape.type == ElementType::kFloat32, ErrorKind::kUsage, "--kernel gaussian reads FP32; use --dtype f4");
  constexpr std::int64_t kRows = 4096;  // of S^T at a time
  const HostBuffer a = made_up_matrix(shape, threads);
  std::vector<float> transposed(static_cast<std::size_t>(std::min(m, kRows) * d)), out(static_cast<std::size_t>(d * n));
  const auto scale = static_cast<float>(1 / std::sqrt(static_cast<double>(d)));
  const int rows_out = checked_int(d, "d"), cols = checked_int(n, "n");
  std::vector<double> builds, applications;
  const auto dense_sketch = [&] {
    double build = 0, apply = 0;
    for (std::int64_t begin = 0; begin < m; begin += kRows) {
      const std::int64_t rows = std::min(kRows, m - begin);
      build += seconds_of([&] {
#pragma omp parallel num_threads(threads)
        {
          std::vector<double> numbers(static_cast<std::size_t>(d));
#pragma omp for schedule(static)
          for (std::int64_t i = 0; i < rows; ++i) {
            normals(seed, begin + i, DrawPurpose::kMatrixEntries, d, numbers.data());
            std::copy(numbers.begin(), numbers.end(), transposed.begin() + i * d);
          }
        }
      });
      apply += seconds_of([&] {
        cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, rows_out, cols, checked_int(rows, "rows"), scale,
                    transposed.data(), rows_out, reinterpret_cast<const float*>(a.data()) + begin * n, cols,
                    begin == 0 ? 0.0F : 1.0F, out.data(), cols);
      });
    }
    builds.push_back(build);
    applications.push_back(apply);
  };
  SketchTiming result;
  const BesideFloor timing = time_beside_read_pass(a, repeats, threads, dense_sketch);
  builds.erase(builds.begin());  // as the first turn of the whole
  applications.erase(applications.begin());
  result.floor = timing.floor;
  result.complete = timing.job;
  result.map = median(builds);
  result.apply = median(applications);
  result.kernel = "blas";
  return result;
}

}  // namespace tallsketch
