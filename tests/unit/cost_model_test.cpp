// The choice between preconditioners: expected passes as they were measured, and the least time of what is allowed.
#include <algorithm>
#include <cmath>
#include <vector>

#include "src/cost_model.h"
#include "tests/support/catch.h"

using namespace tallsketch;

namespace {

constexpr double kRatios[] = {2, 3, 4, 6, 8, 12, 16};

/// Costs in units of a pass: the Gram matrix, and a sketch that grows with d.
SolveCosts costs_of(double pass, double gram, double sketch, double sketch_per_row) {
  SolveCosts costs;
  costs.pass = pass;
  costs.gram = gram;
  costs.sketch = [=](std::int64_t d) { return sketch + sketch_per_row * static_cast<double>(d); };
  return costs;
}

double seconds_of(const Route& route) {
  return route.compression == Compression::kGram ? route.gram_seconds : route.sketch_seconds;
}

}  // namespace

TEST_CASE("Expected passes to 1e-12 are near the measured 44, 28, 20, 17 for d of 2, 4, 8, 12 n") {
  CHECK(expected_passes(1e-12, 4) == Catch::Approx(28).epsilon(0.1));
  CHECK(expected_passes(1e-12, 8) == Catch::Approx(20).epsilon(0.1));
  CHECK(expected_passes(1e-12, 12) == Catch::Approx(17).epsilon(0.1));
  CHECK(expected_passes(1e-12, 2) >= 44);  // the model is of a sketch that is less lucky
  CHECK(expected_passes(1e-12, 2) <= 1.35 * 44);
}

TEST_CASE("Expected passes fall with d / n and with the tolerance, and stay more than judging takes") {
  for (const double tolerance : {1e-15, 1e-12, 1e-8, 1e-3}) {
    double last = 1e9;
    for (const double ratio : {1.1, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 64.0}) {
      const double passes = expected_passes(tolerance, ratio);
      CHECK(passes < last);
      CHECK(passes > 3);
      last = passes;
    }
  }
  for (const double ratio : {2.0, 8.0}) {
    double last = 1e9;
    for (const double tolerance : {1e-16, 1e-15, 1e-12, 1e-8, 1e-5}) {
      CHECK(expected_passes(tolerance, ratio) < last);
      last = expected_passes(tolerance, ratio);
    }
    CHECK(expected_passes(0.5, ratio) <= last);
  }
}

TEST_CASE("A free choice is never slower by the model than any fixed one, and says what it expects") {
  for (const double pass : {1e-3, 0.1, 10.0}) {
    for (const double gram : {0.0, 1.0, 100.0}) {
      for (const double per_row : {0.0, 1e-5, 1e-3, 0.1}) {
        for (const std::int64_t n : {1, 100, 2000}) {
          for (const double tolerance : {1e-15, 1e-12, 1e-6}) {
            const SolveCosts costs = costs_of(pass, gram, 2 * pass, per_row);
            const Route free = cheapest_route(costs, n, tolerance, {});
            CAPTURE(pass, gram, per_row, n, tolerance, free.oversample);
            CHECK(free.gram_seconds == costs.gram + kGramPasses * pass);
            const auto d = static_cast<std::int64_t>(std::ceil(free.oversample * static_cast<double>(n)));
            CHECK(free.sketch_seconds ==
                  Catch::Approx(costs.sketch(d) + expected_passes(tolerance, free.oversample) * pass));
            for (const double ratio : kRatios) {
              for (const bool gram_allowed : {false, true}) {
                const Route fixed =
                    cheapest_route(costs, n, tolerance, {.oversample = ratio, .gram_allowed = gram_allowed});
                CHECK(seconds_of(free) <= seconds_of(fixed));
                CHECK(free.sketch_seconds <= fixed.sketch_seconds);
              }
            }
          }
        }
      }
    }
  }
}

TEST_CASE("Dear passes and few columns choose the Gram matrix, its operations the sketch") {
  // n = 100: reading costs far more than n^2 operations an entry; n = 4000: the other way round.
  CHECK(cheapest_route(costs_of(1, 0.5, 1, 1e-4), 100, 1e-12, {}).compression == Compression::kGram);
  CHECK(cheapest_route(costs_of(1, 200, 1, 1e-4), 4000, 1e-12, {}).compression == Compression::kSketch);
  // On either side of equal: the sketch's least is the bound.
  const Route route = cheapest_route(costs_of(1, 0, 1, 1e-3), 100, 1e-12, {});
  const double equal = route.sketch_seconds - kGramPasses;
  CHECK(cheapest_route(costs_of(1, equal * 0.999, 1, 1e-3), 100, 1e-12, {}).compression == Compression::kGram);
  CHECK(cheapest_route(costs_of(1, equal * 1.001, 1, 1e-3), 100, 1e-12, {}).compression == Compression::kSketch);
}

TEST_CASE("d grows with what a pass costs beside a row of the sketch") {
  double last = 0;
  for (const double per_row : {1.0, 1e-2, 1e-3, 1e-6}) {
    const Route route = cheapest_route(costs_of(1, 1e6, 0, per_row), 100, 1e-12, {});
    CHECK(route.oversample >= last);
    last = route.oversample;
  }
  CHECK(last == 16);
  CHECK(cheapest_route(costs_of(1, 1e6, 0, 1.0), 100, 1e-12, {}).oversample == 2);
}

TEST_CASE("Limits are kept: a settled d, a largest d, no Gram matrix") {
  const SolveCosts costs = costs_of(1, 0, 0, 0);  // free to make: the largest d, and the Gram matrix
  for (const double ratio : {1.05, 2.5, 7.0, 100.0}) {
    const Route route = cheapest_route(costs, 50, 1e-12, {.oversample = ratio});
    CHECK(route.oversample == ratio);
    CHECK(route.sketch_seconds == Catch::Approx(expected_passes(1e-12, ratio)));
  }
  CHECK(cheapest_route(costs, 50, 1e-12, {}).oversample == 16);
  CHECK(cheapest_route(costs, 50, 1e-12, {.most_oversample = 12}).oversample == 12);
  CHECK(cheapest_route(costs, 50, 1e-12, {.most_oversample = 11.9}).oversample == 8);
  CHECK(cheapest_route(costs, 50, 1e-12, {.most_oversample = 1.5}).oversample == 2);  // some sketch there must be
  CHECK(cheapest_route(costs, 50, 1e-12, {}).compression == Compression::kGram);
  CHECK(cheapest_route(costs, 50, 1e-12, {.gram_allowed = false}).compression == Compression::kSketch);
}

TEST_CASE("A route is told with both predictions") {
  const std::string text = describe(cheapest_route(costs_of(1, 96, 0, 0), 50, 1e-12, {.oversample = 8}));
  CHECK_THAT(text, Catch::Matchers::ContainsSubstring("21 s by a sketch with d = 8 n") &&
                       Catch::Matchers::ContainsSubstring("1e+02 s by the Gram matrix"));
}
