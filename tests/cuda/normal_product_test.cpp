// The refinement pass on the GPU: bit for bit on integers for every type, width and number of right-hand sides; nothing of
// the padding reaches the sums; equal bits from run to run, and the accuracy of FP64, on real numbers.
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "kernels/half.h"
#include "kernels/philox.h"
#include "src/cuda_normal_product.h"
#include "src/text.h"
#include "tests/support/catch.h"
#include "tests/support/exact_data.h"

using namespace tallsketch;

namespace {

constexpr ElementType kTypes[] = {ElementType::kFloat32, ElementType::kFloat64, ElementType::kFloat16,
                                  ElementType::kBfloat16};

/// A problem on the host, every number as a double.
struct Problem {
  std::int64_t rows, n, r;
  std::vector<double> a, b, x;  // (rows, n), (rows, r), (n, r)
};

struct Sums {
  std::vector<double> gradient, squares;  // (n, r), (r)
  bool operator==(const Sums&) const = default;
};

/// Small integers, so that all sums are exact: residuals below 8 n + 8 times 8, gradients below rows times 8 times that.
Problem integer_problem(std::int64_t rows, std::int64_t n, std::int64_t r) {
  Problem problem{rows, n, r, {}, {}, {}};
  problem.a.reserve(static_cast<std::size_t>(rows * n));
  for (std::int64_t k = 0; k < rows * n; ++k) problem.a.push_back(static_cast<double>((k * 7 + k / n * 5) % 17 - 8));
  for (std::int64_t k = 0; k < rows * r; ++k) problem.b.push_back(exact_entry(k, 1));
  for (std::int64_t k = 0; k < n * r; ++k) problem.x.push_back(exact_entry(k, 2));
  return problem;
}

/// Numbers in [-1, 1) that fill 24 bits, rounded by the type of A when it is stored.
Problem real_problem(std::int64_t rows, std::int64_t n, std::int64_t r) {
  const auto fill = [](std::int64_t count, std::uint32_t stream) {
    std::vector<double> values;
    for (std::int64_t k = 0; k < count; ++k) {
      const std::uint32_t word = random_words(5, k, DrawPurpose::kMatrixEntries, stream).word[0];
      values.push_back(static_cast<double>(static_cast<float>(static_cast<std::int32_t>(word))) * 0x1p-31);
    }
    return values;
  };
  return {rows, n, r, fill(rows * n, 0), fill(rows * r, 1), fill(n * r, 2)};
}

void store(std::byte* to, double value, ElementType type) {
  if (type == ElementType::kFloat64) {
    std::memcpy(to, &value, 8);
  } else if (type == ElementType::kFloat32) {
    const auto narrow = static_cast<float>(value);
    std::memcpy(to, &narrow, 4);
  } else {
    const std::uint16_t half = type == ElementType::kFloat16 ? double_to_half(value) : double_to_bfloat16(value);
    std::memcpy(to, &half, 2);
  }
}

/// The values in a type, NaN between the columns and the pitch.
std::vector<std::byte> in_type(const std::vector<double>& values, std::int64_t rows, std::int64_t cols,
                               std::int64_t pitch, ElementType type) {
  const std::int64_t size = element_size(type);
  std::vector<std::byte> bytes(static_cast<std::size_t>(rows * pitch * size));
  for (std::int64_t k = 0; k < rows; ++k) {
    for (std::int64_t j = 0; j < pitch; ++j) {
      const double value =
          j < cols ? values[static_cast<std::size_t>(k * cols + j)] : std::numeric_limits<double>::quiet_NaN();
      store(bytes.data() + (k * pitch + j) * size, value, type);
    }
  }
  return bytes;
}

template <class T>
DeviceBuffer<T> to_device(const std::vector<T>& host) {
  DeviceBuffer<T> device(static_cast<std::int64_t>(host.size()));
  if (!host.empty()) check(cudaMemcpy(device.data(), host.data(), device.bytes(), cudaMemcpyHostToDevice));
  return device;
}

/// How A and b lie on the device.
struct Layout {
  ElementType type = ElementType::kFloat32;
  std::int64_t pitch = 0;
  ElementType b_type = ElementType::kFloat64;
  std::int64_t b_spare = 0;  // elements between the rows of b
  int pieces = 1;
};

Layout usual_layout(std::int64_t n, ElementType type) { return {type, cuda::device_pitch(n, type)}; }

Sums device_sums(const Problem& problem, const Layout& layout) {
  const auto [rows, n, r, a_values, b_values, x_values] = problem;
  const std::int64_t b_pitch = r + layout.b_spare;
  const auto a = to_device(in_type(a_values, rows, n, layout.pitch, layout.type));
  const auto b =
      to_device(b_values.empty() ? std::vector<std::byte>() : in_type(b_values, rows, r, b_pitch, layout.b_type));
  const auto x = to_device(x_values);
  const auto sums = to_device(std::vector<double>(static_cast<std::size_t>((n + 1) * r), 0.0));
  const SlabView a_slab{a.data(), rows, n, layout.pitch, layout.type, 0};
  const SlabView b_slab{b_values.empty() ? nullptr : b.data(), rows, r, b_pitch, layout.b_type, 0};
  const CudaStream stream;
  NormalProduct product(n, layout.pitch, r, layout.type);
  for (int piece = 0; piece < layout.pieces; ++piece) {
    const std::int64_t begin = rows * piece / layout.pieces, end = rows * (piece + 1) / layout.pieces;
    product.add(rows_of(a_slab, begin, end - begin), rows_of(b_slab, begin, end - begin), x.data(), sums.data(),
                sums.data() + n * r, stream);
  }
  stream.synchronize();
  std::vector<double> host(static_cast<std::size_t>(sums.count()));
  check(cudaMemcpy(host.data(), sums.data(), sums.bytes(), cudaMemcpyDeviceToHost));
  const auto middle = host.begin() + static_cast<std::ptrdiff_t>(n * r);
  return {{host.begin(), middle}, {middle, host.end()}};
}

/// Plain loops in T; b = 0 where there is none.
template <class T>
Sums host_sums(const Problem& problem) {
  const auto [rows, n, r] = std::array{problem.rows, problem.n, problem.r};
  std::vector<T> gradient(static_cast<std::size_t>(n * r)), squares(static_cast<std::size_t>(r));
  for (std::int64_t k = 0; k < rows; ++k) {
    const double* const row = problem.a.data() + k * n;
    for (std::int64_t q = 0; q < r; ++q) {
      T residual = problem.b.empty() ? T{0} : static_cast<T>(problem.b[static_cast<std::size_t>(k * r + q)]);
      for (std::int64_t j = 0; j < n; ++j) residual -= T{row[j]} * T{problem.x[static_cast<std::size_t>(j * r + q)]};
      for (std::int64_t j = 0; j < n; ++j) gradient[static_cast<std::size_t>(j * r + q)] += T{row[j]} * residual;
      squares[static_cast<std::size_t>(q)] += residual * residual;
    }
  }
  const auto narrow = [](const std::vector<T>& values) {
    std::vector<double> doubles;
    for (const T value : values) doubles.push_back(static_cast<double>(value));
    return doubles;
  };
  return {narrow(gradient), narrow(squares)};
}

void check_exact(const Problem& problem, const std::vector<Layout>& layouts) {
  const Sums expected = host_sums<double>(problem);
  for (const Layout& layout : layouts) {
    INFO(to_word(layout.type) << " rows " << problem.rows << " n " << problem.n << " r " << problem.r << " pitch "
                              << layout.pitch << " b " << to_word(layout.b_type) << " pieces " << layout.pieces);
    CHECK((device_sums(problem, layout) == expected));
  }
}

std::vector<Layout> all_types(std::int64_t n) {
  std::vector<Layout> layouts;
  for (const ElementType type : kTypes) layouts.push_back(usual_layout(n, type));
  return layouts;
}

/// Like real_problem, as a type stores it.
Problem stored_problem(std::int64_t rows, std::int64_t n, std::int64_t r, ElementType type) {
  Problem problem = real_problem(rows, n, r);
  for (double& value : problem.a) {
    if (type == ElementType::kFloat16) value = half_to_double(double_to_half(value));
    if (type == ElementType::kBfloat16) value = bfloat16_to_double(double_to_bfloat16(value));
  }
  return problem;
}

}  // namespace

TEST_CASE("Integers come out exactly for every type, width and number of right-hand sides") {
  for (const std::int64_t n :
       {1, 3, 8, 9, 16, 17, 31, 32, 33, 64, 65, 100, 128, 129, 255, 256, 257, 512, 777, 1000, 1023, 1024}) {
    for (const std::int64_t r : {1, 2, 3, 4}) {
      check_exact(integer_problem(1000, n, r), all_types(n));
    }
  }
}

TEST_CASE("Integers come out exactly for wide rows, on both sides of where the shape changes") {
  for (const std::int64_t n : {1025, 1500, 2047, 2048, 2049, 3072, 3073, 4096, 5001, 8191, 8192}) {
    for (const std::int64_t r : {1, 2, 4}) {
      check_exact(integer_problem(301, n, r), all_types(n));
    }
  }
}

TEST_CASE("Any number of rows comes out exactly: none, fewer than a tile, fewer and more than a round of all CTAs") {
  for (const std::int64_t n : {3, 100, 256, 1000, 2049}) {
    for (const std::int64_t rows : {0, 1, 2, 7, 15, 16, 17, 264, 1055, 1056, 1057, 5003}) {
      for (const std::int64_t r : {1, 3}) {
        const Problem problem = integer_problem(rows, n, r);
        check_exact(problem, {usual_layout(n, ElementType::kFloat32), usual_layout(n, ElementType::kFloat64)});
      }
    }
  }
  check_exact(integer_problem(300000, 5, 1), all_types(5));
  check_exact(integer_problem(40001, 256, 2), all_types(256));
}

TEST_CASE("Rows come in pieces, b in FP32 or with a pitch or not at all, and more than four right-hand sides") {
  Problem problem = integer_problem(1234, 300, 3);
  for (const ElementType type : kTypes) {
    Layout layout = usual_layout(300, type);
    layout.pieces = 7;
    check_exact(problem, {layout});
    layout.b_type = ElementType::kFloat32;
    layout.b_spare = 2;
    check_exact(problem, {layout});
  }
  for (const std::int64_t r : {5, 9})
    check_exact(integer_problem(500, 70, r), {usual_layout(70, ElementType::kFloat32)});
  problem.b.clear();
  check_exact(problem, {usual_layout(300, ElementType::kFloat32)});
}

TEST_CASE("The simple kernel takes what the fused one does not: odd pitches, wider rows") {
  for (const std::int64_t r : {1, 2, 3, 4, 5}) {
    for (const ElementType type : kTypes) {
      check_exact(integer_problem(500, 37, r), {Layout{type, 39, ElementType::kFloat64, 1, 2}});
      check_exact(integer_problem(37, 9001, r), {Layout{type, 9001}});
    }
  }
}

TEST_CASE("Shapes that do not belong to the plan are refused") {
  NormalProduct product(100, 128, 1, ElementType::kFloat32);
  const DeviceBuffer<double> memory(20000);
  const CudaStream stream;
  const SlabView b{memory.data(), 10, 1, 1, ElementType::kFloat64, 0};
  const auto add = [&](const SlabView& a, const SlabView& rhs) {
    product.add(a, rhs, memory.data(), memory.data(), memory.data(), stream);
  };
  CHECK_THROWS(add({memory.data(), 10, 100, 128, ElementType::kFloat64, 0}, b));
  CHECK_THROWS(add({memory.data(), 10, 99, 128, ElementType::kFloat32, 0}, b));
  CHECK_THROWS(add({memory.data(), 10, 100, 100, ElementType::kFloat32, 0}, b));
  CHECK_THROWS(add({memory.data(), 10, 100, 128, ElementType::kFloat32, 0},
                   {memory.data(), 10, 1, 1, ElementType::kFloat16, 0}));
}

TEST_CASE("Equal bits from run to run on real numbers") {
  for (const std::int64_t n : {20, 100, 256, 1000, 2048, 4000}) {
    for (const std::int64_t r : {1, 4}) {
      const Problem problem = real_problem(3001, n, r);
      for (const ElementType type : {ElementType::kFloat32, ElementType::kFloat64}) {
        const Sums first = device_sums(problem, usual_layout(n, type));
        for (int run = 0; run < 9; ++run) CHECK((device_sums(problem, usual_layout(n, type)) == first));
      }
    }
  }
}

TEST_CASE("Real numbers come out with the accuracy of FP64") {
  for (const ElementType type : kTypes) {
    for (const std::int64_t n : {20, 100, 256, 1000, 2500}) {
      const std::int64_t rows = 3001, r = 2;
      const Problem problem = stored_problem(rows, n, r, type);
      const Sums got = device_sums(problem, usual_layout(n, type));
      const Sums exact = host_sums<long double>(problem);
      // A residual sums n products below 1, a gradient `rows` products of a residual below n + 1; the order makes a
      // chain of fewer than n / 2 and rows / 2 additions, which errors of either sign do not fill.
      const double eps = 0x1p-53, size = static_cast<double>(n + 1);
      const double residual_error = eps * size * std::sqrt(static_cast<double>(n));
      const double bound = static_cast<double>(rows) * (residual_error + eps * size);
      double worst = 0;
      for (std::size_t k = 0; k < got.gradient.size(); ++k) {
        worst = std::max(worst, std::fabs(got.gradient[k] - exact.gradient[k]));
      }
      INFO(to_word(type) << " n " << n << " worst " << worst << " bound " << bound);
      CHECK(worst < bound);
      for (std::size_t q = 0; q < got.squares.size(); ++q) {
        CHECK(std::fabs(got.squares[q] - exact.squares[q]) < 1e-13 * exact.squares[q]);
      }
    }
  }
}

TEST_CASE("A NaN or an infinity in A is seen in every sum that it belongs to") {
  for (const double bad : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    for (const auto& [n, r] : {std::pair<std::int64_t, std::int64_t>{40, 1}, {250, 3}, {1000, 2}}) {
      Problem problem = integer_problem(100, n, r);
      problem.a[static_cast<std::size_t>(57 * n + n - 1)] = bad;
      for (const ElementType type : kTypes) {
        INFO(to_word(type) << " n " << n << " r " << r << " bad " << bad);
        const Sums got = device_sums(problem, usual_layout(n, type));
        for (const double value : got.squares) CHECK_FALSE(std::isfinite(value));
        for (const double value : got.gradient) CHECK_FALSE(std::isfinite(value));
      }
    }
  }
}

TEST_CASE("Subnormal numbers are widened exactly") {
  for (const ElementType type : kTypes) {
    const double tiny = type == ElementType::kFloat16 ? 0x1p-24 : type == ElementType::kFloat64 ? 0x1p-500 : 0x1p-133;
    for (const std::int64_t n : {24, 200}) {
      Problem problem = integer_problem(64, n, n == 24 ? 1 : 4);
      for (double& value : problem.a) value *= tiny;
      for (double& value : problem.b) value *= tiny;
      check_exact(problem, {usual_layout(n, type)});
    }
  }
}
