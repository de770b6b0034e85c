// StepCosts: what every step of a solve takes on one rank, by itself. The figures of a machine are in one place, the two
// models that use them put them together: solve_costs for the choice of a route, scaling_model for whole runs. Pure.
#pragma once

#include <cstdint>
#include <functional>

namespace tallsketch {

/// Seconds.
struct StepCosts {
  using OfRows = std::function<double(std::int64_t d)>;
  double file = 0;    // this rank's rows from their files
  double upload = 0;  // to the device; 0 on the host
  double lock = 0;    // page-locking of host memory for them
  // Of rows that are there.
  double gram = 0;  // A^T A
  OfRows sketch;    // S A
  double pass = 0;  // a refinement pass
  // Rank 0.
  double gram_factor = 0;     // Gram matrix -> R
  OfRows sketch_factor;       // sketch -> R, by Cholesky
  OfRows sketch_qr;           // the same by QR
  double reduced_rest = 0;    // from R to x: condition, inverse, estimates; left out where routes are compared
  double between_passes = 0;  // triangular solves
  bool reads_beside = true;   // rows are worked on while the next ones are on their way
};

}  // namespace tallsketch
