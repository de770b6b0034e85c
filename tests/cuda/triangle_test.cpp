// DeviceTriangle against UpperTriangle: every operation, at sizes of one, odd and above a block, at conditions up to 1e13.
#include <cmath>
#include <memory>
#include <vector>

#include "src/cuda_handles.h"
#include "src/cuda_triangle.h"
#include "src/normals.h"
#include "src/upper_triangle.h"
#include "tests/support/catch.h"

using namespace tallsketch;

namespace {

constexpr std::uint64_t kSeed = 20240229;

/// (pitch, n) column-major: a triangle whose diagonal falls from 1 to 1 / cond; below it 99, which nobody may read.
std::vector<double> graded(std::int64_t n, std::int64_t pitch, double cond) {
  std::vector<double> r(static_cast<std::size_t>(pitch * n), 99.0);
  for (std::int64_t j = 0; j < n; ++j) {
    double* const column = r.data() + j * pitch;
    normals(kSeed, j, DrawPurpose::kMatrixEntries, j + 1, column);
    const double share = n == 1 ? 0 : static_cast<double>(j) / static_cast<double>(n - 1);
    for (std::int64_t i = 0; i < j; ++i)
      column[i] *= 0.1 * std::pow(cond, -static_cast<double>(i) / static_cast<double>(n));
    column[j] = std::pow(cond, -share);
  }
  return r;
}

double norm(const std::vector<double>& v) {
  double squares = 0;
  for (const double value : v) squares += value * value;
  return std::sqrt(squares);
}

/// ||a - b|| / ||b||
double difference(std::vector<double> a, const std::vector<double>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] -= b[i];
  return norm(a) / norm(b);
}

}  // namespace

TEST_CASE("A triangle on the device does what it does on the host") {
  const std::int64_t n = GENERATE(1, 2, 45, 129, 300);
  const double cond = GENERATE(1e2, 1e8, 1e13);
  const std::int64_t pitch = n + 3;
  const std::vector<double> values = graded(n, pitch, n == 1 ? 1 : cond);
  const UpperTriangle host(n, values.data(), pitch);
  const CudaStream stream;
  const LibraryHandle<cublasHandle_t> blas = make_blas(stream);
  DeviceBuffer<double> matrix(pitch * n);
  check(cudaMemcpy(matrix.data(), values.data(), matrix.bytes(), cudaMemcpyHostToDevice));
  const DeviceTriangle device(matrix.data(), pitch, std::make_shared<TriangleMemory>(n), blas.get(), stream);
  INFO("n " << n << " cond " << cond);

  CHECK(device.diagonal() == host.diagonal());
  CHECK(difference(device.column_norms(), host.column_norms()) < 1e-14);
  for (std::int64_t j = 0; j < n; ++j) {
    for (std::int64_t i = 0; i <= j; ++i) REQUIRE(device.on_host().at(i, j) == host.at(i, j));
  }
  const double host_condition = host.condition_estimate();
  CHECK(device.condition_estimate() / host_condition == Catch::Approx(1).epsilon(0.05));

  std::vector<double> start(static_cast<std::size_t>(n));
  normals(kSeed, 1, DrawPurpose::kVectors, n, start.data());
  using Operation = void (Triangle::*)(std::vector<double>&) const;
  for (const auto& [operation, allowed] : {std::pair<Operation, double>{&Triangle::multiply, 1},
                                           {&Triangle::multiply_transposed, 1},
                                           {&Triangle::solve, host_condition},
                                           {&Triangle::solve_transposed, host_condition}}) {
    std::vector<double> here = start, there = start;
    (host.*operation)(here);
    (static_cast<const Triangle&>(device).*operation)(there);
    CHECK(difference(there, here) < 1e-14 * static_cast<double>(n) * allowed);
  }
}

TEST_CASE("Triangles with memory of their own do not disturb each other") {
  const std::int64_t n = 40;
  const CudaStream stream;
  const LibraryHandle<cublasHandle_t> blas = make_blas(stream);
  DeviceBuffer<double> matrix(n * n);
  std::vector<std::unique_ptr<DeviceTriangle>> triangles;
  std::vector<UpperTriangle> hosts;
  for (const double cond : {1e1, 1e3, 1e5}) {
    const std::vector<double> values = graded(n, n, cond);
    check(cudaMemcpy(matrix.data(), values.data(), matrix.bytes(), cudaMemcpyHostToDevice));
    triangles.push_back(
        std::make_unique<DeviceTriangle>(matrix.data(), n, std::make_shared<TriangleMemory>(n), blas.get(), stream));
    hosts.emplace_back(n, values.data(), n);
  }
  for (std::size_t k = 0; k < hosts.size(); ++k) {
    std::vector<double> here(static_cast<std::size_t>(n), 1.0), there = here;
    hosts[k].solve(here);
    triangles[k]->solve(there);
    CHECK(difference(there, here) < 1e-8);
  }
}
