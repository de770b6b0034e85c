// The cost model of a refined solve: what each preconditioner costs to make, and how many passes it then takes. Pure.
// Backends fill SolveCosts; solver.cpp asks cheapest_route once, before a row is read. docs/decisions/0018.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace tallsketch {

/// What rows become on their way: S [A | b], or, as the normal equations have it, [A | b]^T [A | b] in FP64.
enum class Compression { kSketch, kGram };

/// Seconds on the busiest rank, for one shape. Rough: they are to tell factors of two apart.
struct SolveCosts {
  double read = 0;  // the first read of the rows
  double pass = 0;  // a refinement pass, with its reduction and what rank 0 does between passes
  double gram = 0;  // the Gram matrix, as far as it is not hidden behind that read, and its Cholesky factor
  std::function<double(std::int64_t d)> sketch = [](std::int64_t) { return 0.0; };  // the same
};

/// Passes over A that refinement takes from the sketch's solution to the tolerance: CG with condition about
/// (1 + e) / (1 - e), e = sqrt(n / d), from measured counts (docs/decisions/0016).
double expected_passes(double tolerance, double ratio);

/// The same with the Cholesky factor of the FP64 Gram matrix: two judgements and a step or two between them.
inline constexpr double kGramPasses = 4;

struct Route {
  Compression compression = Compression::kSketch;
  double oversample = 0;                        // d / n of the sketch, also where it is only the fall-back
  double sketch_seconds = 0, gram_seconds = 0;  // predicted, of either route after the first read
};

/// What a caller has settled already.
struct RouteLimits {
  double oversample = 0;         // d / n; 0: free
  double most_oversample = 1e9;  // by memory
  bool gram_allowed = true;
};

/// The route with the least predicted time. A Gram matrix that turns out too ill-conditioned costs its own time on top of
/// the sketch's, so that the sum is less than twice that of the sketch alone.
Route cheapest_route(const SolveCosts& costs, std::int64_t n, double tolerance, const RouteLimits& limits);

/// One line for people.
std::string describe(const Route& route);

}  // namespace tallsketch
