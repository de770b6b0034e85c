// The Pareto front against its definition, on points with many ties, and on points that never count.
#include <limits>
#include <random>
#include <vector>

#include "src/pareto.h"
#include "tests/support/catch.h"

using namespace tallsketch;

namespace {

bool beats(const CostAndError& a, const CostAndError& b) {
  return a.cost <= b.cost && a.error <= b.error && (a.cost < b.cost || a.error < b.error);
}

std::vector<bool> front_by_definition(const std::vector<CostAndError>& points) {
  std::vector<bool> front;
  for (const CostAndError& point : points) {
    bool beaten = false;
    for (const CostAndError& other : points) beaten = beaten || beats(other, point);
    front.push_back(!beaten);
  }
  return front;
}

}  // namespace

TEST_CASE("The front is what nobody beats, with ties in cost, in error and in both") {
  constexpr std::uint32_t kSeed = 7;
  std::mt19937 random(kSeed);
  for (const int values : {2, 4, 30}) {
    for (int round = 0; round < 200; ++round) {
      std::vector<CostAndError> points(random() % 40);
      for (CostAndError& point : points) {
        point.cost = static_cast<double>(random() % static_cast<unsigned>(values));
        point.error = static_cast<double>(random() % static_cast<unsigned>(values));
      }
      INFO("seed " << kSeed << ", round " << round << ", " << values << " values, " << points.size() << " points");
      CHECK(pareto_front(points) == front_by_definition(points));
    }
  }
}

TEST_CASE("Equal points share their place, and infinities and NaN have none") {
  constexpr double kInfinity = std::numeric_limits<double>::infinity(), kNan = std::numeric_limits<double>::quiet_NaN();
  CHECK(pareto_front({}).empty());
  CHECK(pareto_front({{1, 2}, {1, 2}, {2, 1}, {2, 2}}) == std::vector<bool>{true, true, true, false});
  CHECK(pareto_front({{kInfinity, 0}, {0, kInfinity}, {kNan, 0}, {0, kNan}, {3, 3}}) ==
        std::vector<bool>{false, false, false, false, true});
  CHECK(pareto_front({{0, 0}, {0, 1}, {1, 0}}) == std::vector<bool>{true, false, false});
}
