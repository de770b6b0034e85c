// The host sketch against the dense oracle, bit for bit on integer data, and what its header promises beyond that.
#include "kernels/sketch_host.h"

#include <omp.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "kernels/sketch_rule.h"
#include "tests/support/catch.h"
#include "tests/support/exact_data.h"
#include "tests/support/guarded_workspace.h"
#include "tests/support/oracle.h"
#include "tests/support/specs.h"

namespace {

using namespace tallsketch;

constexpr std::int64_t kAllRows = std::int64_t{1} << 62;

/// A and b with their storage. T is float or double.
template <class T>
struct Problem {
  std::int64_t first_row, m, n, r, pitch_a, pitch_b;
  std::vector<T> a, b;

  SlabView view_a(std::int64_t begin, std::int64_t rows) const { return view(a, n, pitch_a, begin, rows); }
  SlabView view_b(std::int64_t begin, std::int64_t rows) const { return view(b, r, pitch_b, begin, rows); }

 private:
  SlabView view(const std::vector<T>& data, std::int64_t cols, std::int64_t pitch, std::int64_t begin,
                std::int64_t rows) const {
    const ElementType type = sizeof(T) == 4 ? ElementType::kFloat32 : ElementType::kFloat64;
    return {cols == 0 ? nullptr : data.data() + begin * pitch, rows, cols, pitch, type, first_row + begin};
  }
};

/// Integers; NaN stands between the columns and the pitch.
template <class T>
Problem<T> make_exact_problem(std::int64_t first_row, std::int64_t m, std::int64_t n, std::int64_t r,
                              std::int64_t more_pitch = 0) {
  Problem<T> p{first_row, m, n, r, n + more_pitch, r + more_pitch, {}, {}};
  p.a = make_exact_matrix<T>(first_row, m, 0, n, p.pitch_a);
  p.b = make_exact_matrix<T>(first_row, m, n, r, p.pitch_b);
  return p;
}

/// A and b of wide_exact_entry.
Problem<double> make_wide_problem(std::int64_t first_row, std::int64_t m, std::int64_t n, std::int64_t r,
                                  std::int64_t more_pitch = 0) {
  Problem<double> p = make_exact_problem<double>(first_row, m, n, r, more_pitch);
  for (std::int64_t k = 0; k < m; ++k) {
    for (std::int64_t j = 0; j < n; ++j)
      p.a[static_cast<std::size_t>(k * p.pitch_a + j)] = wide_exact_entry(first_row + k, j);
    for (std::int64_t j = 0; j < r; ++j)
      p.b[static_cast<std::size_t>(k * p.pitch_b + j)] = wide_exact_entry(first_row + k, n + j);
  }
  return p;
}

SketchSpec in_fp64(SketchSpec spec) {
  spec.precision = SketchPrecision::kFp64;
  return spec;
}

/// Uniform reals in [-1, 1), whose sums depend on their order.
template <class T>
Problem<T> make_real_problem(std::int64_t first_row, std::int64_t m, std::int64_t n, std::int64_t r) {
  Problem<T> p = make_exact_problem<T>(first_row, m, n, r);
  std::int64_t index = 0;
  for (std::vector<T>* matrix : {&p.a, &p.b}) {
    for (T& value : *matrix) {
      const RandomWords words = random_words(7, index++, DrawPurpose::kMatrixEntries, 0);
      value = static_cast<T>(static_cast<double>(words.word[0]) * 0x1p-31 - 1.0);
    }
  }
  return p;
}

using Workspace = GuardedWorkspace<host::SketchWorkspace>;

/// The host sketch of a problem in chunks. result  (d, n + r) row-major, without padding
/// Sum is the type of the accumulators: double with an FP64 spec.
/// Checks on the way that nothing behind the workspace and beside the columns of the output was written.
template <class Sum = float, class T>
std::vector<Sum> host_sketch(const SketchSpec& spec, const Problem<T>& p, std::int64_t chunk_rows = kAllRows,
                             int threads = 2) {
  Workspace workspace(host::sketch_workspace_bytes(spec, p.n, p.r, threads), p.n, p.r, threads);
  host::sketch_begin(spec, p.n, p.r, workspace.handle);
  for (std::int64_t k = 0; k < p.m; k += std::min(chunk_rows, p.m)) {
    const std::int64_t rows = std::min(chunk_rows, p.m - k);
    host::sketch_add(spec, p.view_a(k, rows), p.view_b(k, rows), workspace.handle);
  }
  const std::int64_t cols = p.n + p.r;
  const std::int64_t pitch = cols + 5;
  constexpr Sum kUntouched = -12345.5F;
  std::vector<Sum> out(static_cast<std::size_t>((spec.d + 1) * pitch), kUntouched);
  host::sketch_end(spec, workspace.handle, {out.data(), spec.d, cols, pitch});
  REQUIRE(workspace.guard_is_whole());

  std::vector<Sum> result;
  int touched = 0;
  for (std::int64_t i = 0; i <= spec.d; ++i) {
    const auto row = out.begin() + i * pitch;
    const std::int64_t written = i < spec.d ? cols : 0;
    result.insert(result.end(), row, row + written);
    touched += static_cast<int>(std::count_if(row + written, row + pitch, [](Sum x) { return x != kUntouched; }));
  }
  REQUIRE(touched == 0);
  return result;
}

template <class T>
std::vector<double> oracle(const SketchSpec& spec, const Problem<T>& p) {
  return oracle_sketch(spec, p.view_a(0, p.m), p.view_b(0, p.m));
}

/// Entries that differ; exact comparison, so a NaN differs from everything.
template <class Sum>
std::int64_t differences(const std::vector<Sum>& y, const std::vector<double>& expected) {
  if (y.size() != expected.size()) return -1;
  std::int64_t count = 0;
  for (std::size_t i = 0; i < y.size(); ++i) count += !(static_cast<double>(y[i]) == expected[i]);
  return count;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

double correlation(const std::vector<float>& x, const std::vector<float>& y) {
  double xy = 0.0, xx = 0.0, yy = 0.0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    xy += static_cast<double>(x[i]) * static_cast<double>(y[i]);
    xx += static_cast<double>(x[i]) * static_cast<double>(x[i]);
    yy += static_cast<double>(y[i]) * static_cast<double>(y[i]);
  }
  return xy / std::sqrt(xx * yy);
}

}  // namespace

TEST_CASE("the host sketch is the oracle's, bit for bit, for every zeta, n, r, hash and both element types") {
  constexpr std::int64_t kRows = 1129;  // two batches and a piece; prime
  int run = 0;
  for (const std::int64_t n : {1, 3, 37, 64, 100, 257}) {
    for (const std::int64_t r : {0, 1, 3}) {
      const Problem<float> single = make_exact_problem<float>(0, kRows, n, r);
      const Problem<double> wide = make_exact_problem<double>(0, kRows, n, r);
      for (const SketchHash hash : {SketchHash::kPermuted, SketchHash::kIndependent}) {
        for (const std::int32_t zeta : {1, 2, 3, 4, 8, 16}) {
          ++run;
          // Buckets a block: powers of two, T = 480 and 510, one bucket, T = buckets. Then d no multiple of zeta.
          const std::int64_t buckets =
              std::vector<std::int64_t>{8, 20, 1, 32, 6, 60}[static_cast<std::size_t>(run % 6)];
          const std::int64_t extra = hash == SketchHash::kIndependent ? run % zeta : 0;
          const SketchSpec spec = make_spec(hash, buckets * zeta + extra, zeta);
          INFO("hash " << static_cast<int>(hash) << " d " << spec.d << " zeta " << zeta << " n " << n << " r " << r);
          const std::vector<double> expected = oracle(spec, single);
          CHECK(differences(host_sketch(spec, single, kAllRows, 1 + run % 3), expected) == 0);
          CHECK(differences(host_sketch(spec, wide, kAllRows, 1 + run % 2), expected) == 0);
        }
      }
    }
  }
}

TEST_CASE("chunks of 1, 7, 1000 and all rows, from any first row, give the same sketch") {
  for (const SketchHash hash : {SketchHash::kPermuted, SketchHash::kIndependent}) {
    for (const std::int64_t d : {std::int64_t{64}, std::int64_t{320}}) {  // T = 512, 480
      const SketchSpec spec = make_spec(hash, hash == SketchHash::kPermuted ? d : d + 3, 4);
      for (const std::int64_t first_row : {std::int64_t{0}, std::int64_t{1}, std::int64_t{479}, std::int64_t{511},
                                           std::int64_t{513}, (std::int64_t{1} << 40) + 77}) {
        const Problem<float> p = make_exact_problem<float>(first_row, 1301, 37, 3);
        const Problem<double> wide = make_exact_problem<double>(first_row, 1301, 37, 3, 2);
        const std::vector<double> expected = oracle(spec, p);
        for (const std::int64_t chunk : {std::int64_t{1}, std::int64_t{7}, std::int64_t{1000}, kAllRows}) {
          if (chunk == 1 && (first_row > 1 || d == 320)) continue;  // a chunk of one row costs a whole batch
          INFO("hash " << static_cast<int>(hash) << " d " << spec.d << " first row " << first_row << " chunk "
                       << chunk);
          CHECK(differences(host_sketch(spec, p, chunk), expected) == 0);
          if (chunk > 1) CHECK(differences(host_sketch(spec, wide, chunk, 1), expected) == 0);
        }
      }
    }
  }
}

TEST_CASE("chunks may come in any order, and several sketches add up to that of all rows") {
  const SketchSpec spec = make_spec(SketchHash::kPermuted, 128, 4);
  const Problem<float> p = make_exact_problem<float>(300, 2000, 64, 1);
  Workspace workspace(host::sketch_workspace_bytes(spec, p.n, p.r, 2), p.n, p.r, 2);
  host::sketch_begin(spec, p.n, p.r, workspace.handle);
  for (const std::int64_t begin : {1500, 0, 1000, 500}) {
    host::sketch_add(spec, p.view_a(begin, 500), p.view_b(begin, 500), workspace.handle);
  }
  std::vector<float> out(static_cast<std::size_t>(spec.d * 65));
  host::sketch_end(spec, workspace.handle, {out.data(), spec.d, 65, 65});
  CHECK(differences(out, oracle(spec, p)) == 0);
}

TEST_CASE("a pitch beyond the columns is skipped, in whole strips and in parts, in both matrices") {
  for (const SketchHash hash : {SketchHash::kPermuted, SketchHash::kIndependent}) {
    const SketchSpec spec = make_spec(hash, 128, 4);
    for (const std::int64_t n : {1, 16, 63, 64, 65, 128, 130}) {
      for (const std::int64_t more : {1, 3, 64, 200}) {
        INFO("n " << n << " pitch " << n + more);
        const Problem<float> p = make_exact_problem<float>(100, 700, n, 2, more);
        const std::vector<double> expected = oracle(spec, p);
        CHECK(differences(host_sketch(spec, p), expected) == 0);
        CHECK(differences(host_sketch(spec, make_exact_problem<double>(100, 700, n, 2, more)), expected) == 0);
      }
    }
  }
}

TEST_CASE("batches that no full deal serves, uneven or shorter than the buckets, follow the rule too") {
  struct Case {
    std::int64_t buckets, batch_rows;
  };
  for (const Case c : {Case{100, 256}, Case{7, 512}, Case{511, 512}, Case{128, 64}, Case{1000, 999}, Case{600, 600},
                       Case{257, 257}, Case{3, 4}, Case{30, 1}}) {
    for (const std::int32_t zeta : {1, 4}) {
      SketchSpec spec = make_spec(SketchHash::kPermuted, c.buckets * zeta, zeta);
      spec.batch_rows = c.batch_rows;
      const Problem<float> p = make_exact_problem<float>(77, 1500, 20, 1);
      INFO("buckets " << c.buckets << " T " << c.batch_rows << " zeta " << zeta);
      const std::vector<double> expected = oracle(spec, p);
      CHECK(differences(host_sketch(spec, p), expected) == 0);
      CHECK(differences(host_sketch(spec, p, 130, 3), expected) == 0);
    }
  }
}

TEST_CASE("BlockPerm is the oracle's too: both kinds of blocks, both hashes, cut batches, blocks below a batch") {
  struct Shape {
    std::int64_t d, block_rows;
    std::int32_t kappa, block_nnz;
  };
  constexpr std::int64_t kRows = 1301;
  for (const Shape& s : {Shape{64, 64, 1, 4}, Shape{256, 128, 2, 2}, Shape{320, 64, 3, 1}, Shape{360, 60, 5, 3},
                         Shape{96, 8, 12, 2}, Shape{2048, 128, 2, 2}}) {
    for (const SketchHash hash : {SketchHash::kPermuted, SketchHash::kIndependent}) {
      for (const std::int64_t first_row : {0, 777}) {
        for (const bool contiguous : {false, true}) {
          const SketchSpec spec =
              make_block_spec(hash, s.d, s.block_rows, s.kappa, s.block_nnz, contiguous ? first_row + kRows : 0);
          INFO("d " << s.d << " B_r " << s.block_rows << " kappa " << s.kappa << " s " << s.block_nnz << " hash "
                    << static_cast<int>(hash) << " contiguous " << contiguous << " first row " << first_row);
          const Problem<float> p = make_exact_problem<float>(first_row, kRows, 37, 2);
          const std::vector<double> expected = oracle(spec, p);
          CHECK(differences(host_sketch(spec, p), expected) == 0);
          CHECK(differences(host_sketch(spec, p, 130, 3), expected) == 0);
          const Problem<double> wide = make_exact_problem<double>(first_row, kRows, 37, 2, 3);
          CHECK(differences(host_sketch(spec, wide, 601, 2), expected) == 0);
        }
      }
    }
  }
}

TEST_CASE("an FP64 sketch of integers beyond FP32 is the oracle's, bit for bit; an FP32 one is not") {
  // One register, parts of one and several; gather with C = 16, 4 and 1 (a scatter), T = 510, d no multiple of zeta.
  for (const auto& [hash, d, zeta] : {std::tuple{SketchHash::kPermuted, 128, 4},
                                      {SketchHash::kPermuted, 512, 4},
                                      {SketchHash::kPermuted, 2048, 4},
                                      {SketchHash::kPermuted, 18, 3},
                                      {SketchHash::kIndependent, 131, 4}}) {
    const SketchSpec spec = make_spec(hash, d, zeta);
    for (const std::int64_t n : {1, 7, 8, 16, 17, 100}) {
      for (const std::int64_t more : {0, 3}) {
        INFO("d " << d << " zeta " << zeta << " n " << n << " pitch " << n + more);
        const Problem<double> p = make_wide_problem(77, 1301, n, 3, more);
        const std::vector<double> expected = oracle(spec, p);
        CHECK(differences(host_sketch<double>(in_fp64(spec), p, kAllRows, 2), expected) == 0);
        CHECK(differences(host_sketch<double>(in_fp64(spec), p, 333, 3), expected) == 0);
        CHECK(differences(host_sketch(spec, p), expected) > 0);
      }
    }
  }
}

TEST_CASE("an FP64 sketch takes float rows too, and shares its accumulators among threads") {
  for (const auto& [d, m, n] : {std::tuple<std::int64_t, std::int64_t, std::int64_t>{16, 70000, 3},  // 16 segments
                                {1024, 1700, 200},                                                   // two
                                {4096, 1500, 300}}) {                                                // one
    const SketchSpec spec = in_fp64(make_spec(SketchHash::kPermuted, d, 4));
    const Problem<float> p = make_exact_problem<float>(16384 - 800, m, n, 2);
    const std::vector<double> expected = oracle(spec, p);
    INFO("d " << d << " n " << n);
    for (const int threads : {1, 3}) CHECK(differences(host_sketch<double>(spec, p, kAllRows, threads), expected) == 0);
  }
}

TEST_CASE("many rows spread over all accumulators give the oracle's sketch") {
  for (const SketchHash hash : {SketchHash::kPermuted, SketchHash::kIndependent}) {
    const SketchSpec spec = make_spec(hash, 16, 4);
    const Problem<float> p = make_exact_problem<float>((std::int64_t{1} << 33) - 60100, 120000, 3, 1);  // the last too
    const std::vector<double> expected = oracle(spec, p);
    INFO("hash " << static_cast<int>(hash));
    CHECK(differences(host_sketch(spec, p, kAllRows, 3), expected) == 0);
    CHECK(differences(host_sketch(spec, p, 50000, 2), expected) == 0);
  }
}

TEST_CASE("a sketch too large for private accumulators gives the oracle's sketch") {
  for (const SketchHash hash : {SketchHash::kPermuted, SketchHash::kIndependent}) {
    const SketchSpec spec = make_spec(hash, hash == SketchHash::kPermuted ? 4096 : 4099, 4);
    const Problem<float> p = make_exact_problem<float>(1000, 2500, 530, 3);
    const std::vector<double> expected = oracle(spec, p);
    INFO("hash " << static_cast<int>(hash));
    for (const int threads : {1, 2, 3}) CHECK(differences(host_sketch(spec, p, kAllRows, threads), expected) == 0);
    CHECK(differences(host_sketch(spec, p, 999, 2), expected) == 0);
  }
}

TEST_CASE("threads that share several accumulators, each of several strips, give the oracle's sketch") {
  for (const SketchHash hash : {SketchHash::kPermuted, SketchHash::kIndependent}) {
    // 1.7 MB of accumulators: two segments; the rows cross the border of 16384 between them.
    const SketchSpec spec = make_spec(hash, 1024, 4);
    const Problem<float> p = make_exact_problem<float>(3 * 16384 - 800, 1700, 400, 3);
    const std::vector<double> expected = oracle(spec, p);
    INFO("hash " << static_cast<int>(hash));
    for (const int threads : {1, 2, 3, 8}) CHECK(differences(host_sketch(spec, p, kAllRows, threads), expected) == 0);
    CHECK(differences(host_sketch(spec, p, 700, 3), expected) == 0);
  }
}

TEST_CASE("random shapes, chunks and threads agree with the oracle") {
  constexpr std::uint64_t kSeed = 271828;
  INFO("seed " << kSeed);
  for (std::int64_t draw = 0; draw < 150; ++draw) {
    std::uint32_t choice = 0;
    const auto pick = [&](std::int64_t least, std::int64_t most) {
      const std::uint64_t random = word_pair(random_words(kSeed, draw, DrawPurpose::kVectors, choice++), 0);
      return least + static_cast<std::int64_t>(bounded(random, static_cast<std::uint32_t>(most - least + 1)));
    };
    const bool permuted = pick(0, 1) == 1;
    const auto zeta = static_cast<std::int32_t>(pick(1, 9));
    const std::int64_t d = pick(1, 90) * zeta + (permuted ? 0 : pick(0, zeta - 1));
    SketchSpec spec = make_spec(permuted ? SketchHash::kPermuted : SketchHash::kIndependent, d, zeta,
                                static_cast<std::uint64_t>(pick(0, 1000000)));
    if (permuted && pick(0, 3) == 0) spec.batch_rows = pick(1, 700);
    const std::int64_t first_row = pick(0, 5000);
    const std::int64_t m = pick(1, 1500);
    const std::int64_t n = pick(1, 150);
    const std::int64_t r = pick(0, 4);
    const std::int64_t more = pick(0, 2) == 0 ? pick(1, 70) : 0;
    const std::int64_t chunk = pick(0, 1) == 0 ? kAllRows : pick(40, 900);
    const auto threads = static_cast<int>(pick(1, 4));
    INFO("draw " << draw << " d " << d << " zeta " << zeta << " T " << spec.batch_rows << " first row " << first_row
                 << " m " << m << " n " << n << " r " << r << " chunk " << chunk << " threads " << threads);
    const Problem<float> p = make_exact_problem<float>(first_row, m, n, r, more);
    CHECK(differences(host_sketch(spec, p, chunk, threads), oracle(spec, p)) == 0);
  }
}

TEST_CASE("the number of threads does not change a bit of a sketch of real numbers") {
  struct Case {
    SketchHash hash;
    std::int64_t d, m, n;
  };
  // Few rows; rows of many segments; two segments, each shared by threads; one accumulator that all threads share.
  for (const Case c : {Case{SketchHash::kPermuted, 256, 3000, 70}, Case{SketchHash::kIndependent, 257, 3000, 70},
                       Case{SketchHash::kPermuted, 64, 100000, 5}, Case{SketchHash::kIndependent, 64, 100000, 5},
                       Case{SketchHash::kPermuted, 1024, 40000, 400}, Case{SketchHash::kPermuted, 4096, 3000, 530},
                       Case{SketchHash::kIndependent, 4096, 3000, 530}}) {
    const SketchSpec spec = make_spec(c.hash, c.d, 4);
    const Problem<float> p = make_real_problem<float>(123, c.m, c.n, 1);
    const std::vector<float> one = host_sketch(spec, p, kAllRows, 1);
    INFO("hash " << static_cast<int>(c.hash) << " d " << c.d << " m " << c.m);
    for (const int threads : {1, 2, 3, 5}) CHECK(same_bits(host_sketch(spec, p, kAllRows, threads), one));
    const std::vector<float> chunked = host_sketch(spec, p, 1000, 1);
    CHECK(same_bits(host_sketch(spec, p, 1000, 3), chunked));
  }
}

TEST_CASE("a team smaller than asked for loses nothing") {
  const int levels = omp_get_max_active_levels();
  for (const std::int64_t d : {std::int64_t{128}, std::int64_t{4096}}) {
    const SketchSpec spec = make_spec(SketchHash::kPermuted, d, 4);
    const Problem<float> p = make_exact_problem<float>(0, 1500, 530, 1);
    omp_set_max_active_levels(0);  // as under OMP_THREAD_LIMIT, or called from a parallel region: one thread for three
    const std::vector<float> y = host_sketch(spec, p, kAllRows, 3);
    omp_set_max_active_levels(levels);
    INFO("d " << d);
    CHECK(differences(y, oracle(spec, p)) == 0);
  }
}

TEST_CASE("a sketch of real numbers is within the rounding of its additions") {
  for (const SketchHash hash : {SketchHash::kPermuted, SketchHash::kIndependent}) {
    const SketchSpec spec = make_spec(hash, 256, 4);
    const Problem<float> p = make_real_problem<float>(0, 5000, 40, 1);
    const std::vector<float> y = host_sketch(spec, p);
    const std::vector<double> expected = oracle(spec, p);
    // About zeta m / d = 78 terms below 1 an entry, at most twice as many: partial sums <= k, k roundings of eps / 2.
    const double terms = 2.0 * 4 * 5000 / 256;
    const double bound = terms * terms * 0x1p-24;
    double worst = 0.0;
    for (std::size_t i = 0; i < y.size(); ++i)
      worst = std::max(worst, std::fabs(static_cast<double>(y[i]) - expected[i]));
    CHECK(worst <= bound);
    CHECK(worst > 0.0);  // or these are not real numbers
  }
}

TEST_CASE("float64 entries are rounded to float32 one by one and give the bits of the float32 sketch") {
  for (const SketchHash hash : {SketchHash::kPermuted, SketchHash::kIndependent}) {
    const SketchSpec spec = make_spec(hash, 128, 4);
    for (const std::int64_t n : {37, 64}) {
      Problem<double> wide = make_real_problem<double>(50, 1200, n, 1);
      Problem<float> single = make_real_problem<float>(50, 1200, n, 1);
      for (double& x : wide.a) x /= 3.0;
      for (double& x : wide.b) x /= 3.0;
      std::transform(wide.a.begin(), wide.a.end(), single.a.begin(), [](double x) { return static_cast<float>(x); });
      std::transform(wide.b.begin(), wide.b.end(), single.b.begin(), [](double x) { return static_cast<float>(x); });
      CHECK(same_bits(host_sketch(spec, wide), host_sketch(spec, single)));
    }
  }
}

TEST_CASE("a and b may have different element types") {
  const SketchSpec spec = make_spec(SketchHash::kPermuted, 128, 4);
  const Problem<float> single = make_exact_problem<float>(0, 900, 64, 2);
  const Problem<double> wide = make_exact_problem<double>(0, 900, 64, 2);
  Workspace workspace(host::sketch_workspace_bytes(spec, 64, 2, 2), 64, 2, 2);
  host::sketch_begin(spec, 64, 2, workspace.handle);
  host::sketch_add(spec, single.view_a(0, 900), wide.view_b(0, 900), workspace.handle);
  std::vector<float> out(static_cast<std::size_t>(spec.d * 66));
  host::sketch_end(spec, workspace.handle, {out.data(), spec.d, 66, 66});
  CHECK(differences(out, oracle(spec, single)) == 0);
}

TEST_CASE("a NaN or an infinity stays in its column and in the zeta sketch rows of its row") {
  for (const SketchHash hash : {SketchHash::kPermuted, SketchHash::kIndependent}) {
    const SketchSpec spec = make_spec(hash, 128, 4);
    Problem<float> p = make_exact_problem<float>(200, 1000, 70, 1);
    const Problem<float> clean = p;
    p.a[static_cast<std::size_t>(311 * p.pitch_a + 66)] = std::numeric_limits<float>::quiet_NaN();
    p.a[static_cast<std::size_t>(999 * p.pitch_a + 2)] = std::numeric_limits<float>::infinity();
    const std::vector<float> y = host_sketch(spec, p, 400);
    const std::vector<float> expected = host_sketch(spec, clean, 400);
    std::vector<char> hit(y.size(), 0);
    for (std::int32_t t = 0; t < 4; ++t) {
      hit[static_cast<std::size_t>(sketch_entry(spec, 200 + 311, t).sketch_row * 71 + 66)] = 1;
      hit[static_cast<std::size_t>(sketch_entry(spec, 200 + 999, t).sketch_row * 71 + 2)] = 1;
    }
    int wrong = 0;
    for (std::size_t i = 0; i < y.size(); ++i) wrong += hit[i] != 0 ? std::isfinite(y[i]) : y[i] != expected[i];
    CHECK(wrong == 0);
  }
}

TEST_CASE("zero rows give a sketch of zeros, and add nothing to one of some rows") {
  for (const SketchHash hash : {SketchHash::kPermuted, SketchHash::kIndependent}) {
    const SketchSpec spec = make_spec(hash, 64, 4);
    const Problem<float> none = make_exact_problem<float>(10, 0, 37, 1);
    const std::vector<float> zeros = host_sketch(spec, none);
    CHECK(zeros.size() == 64 * 38);
    CHECK(std::all_of(zeros.begin(), zeros.end(), [](float x) { return x == 0.0F; }));

    const Problem<float> p = make_exact_problem<float>(10, 600, 37, 1);
    Workspace workspace(host::sketch_workspace_bytes(spec, 37, 1, 2), 37, 1, 2);
    host::sketch_begin(spec, 37, 1, workspace.handle);
    const SlabView empty_a{nullptr, 0, 37, 37, ElementType::kFloat32, 10};
    const SlabView empty_b{nullptr, 0, 1, 1, ElementType::kFloat32, 10};
    host::sketch_add(spec, empty_a, empty_b, workspace.handle);
    host::sketch_add(spec, p.view_a(0, 600), p.view_b(0, 600), workspace.handle);
    host::sketch_add(spec, empty_a, empty_b, workspace.handle);
    std::vector<float> out(64 * 38);
    host::sketch_end(spec, workspace.handle, {out.data(), 64, 38, 38});
    CHECK(differences(out, oracle(spec, p)) == 0);
  }
}

TEST_CASE("a workspace serves again after another begin") {
  const SketchSpec spec = make_spec(SketchHash::kPermuted, 64, 4);
  const Problem<float> first = make_exact_problem<float>(0, 600, 37, 1);
  const Problem<float> second = make_exact_problem<float>(5000, 900, 37, 1);
  Workspace workspace(host::sketch_workspace_bytes(spec, 37, 1, 2), 37, 1, 2);
  for (const Problem<float>* p : {&first, &second}) {
    host::sketch_begin(spec, 37, 1, workspace.handle);
    host::sketch_add(spec, p->view_a(0, p->m), p->view_b(0, p->m), workspace.handle);
    std::vector<float> out(64 * 38);
    host::sketch_end(spec, workspace.handle, {out.data(), 64, 38, 38});
    CHECK(differences(out, oracle(spec, *p)) == 0);
  }
}

TEST_CASE("case C-35: the same seed repeats a sketch, neighbouring seeds are uncorrelated") {
  const Problem<float> p = make_exact_problem<float>(0, 4000, 64, 1);
  for (const SketchHash hash : {SketchHash::kPermuted, SketchHash::kIndependent}) {
    for (const std::uint64_t seed : {std::uint64_t{0}, std::uint64_t{1000}, std::uint64_t{0xffffffffU}}) {
      const std::vector<float> y = host_sketch(make_spec(hash, 256, 4, seed), p);
      const std::vector<float> next = host_sketch(make_spec(hash, 256, 4, seed + 1), p);
      INFO("seed " << seed);
      CHECK(same_bits(y, host_sketch(make_spec(hash, 256, 4, seed), p)));
      CHECK_FALSE(y == next);
      CHECK(std::fabs(correlation(y, next)) < 0.05);  // 256 * 65 entries: sigma 0.008
    }
  }
}
