#include "src/referee.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "src/attempt.h"
#include "src/certificate.h"
#include "src/communicator.h"
#include "src/error.h"
#include "src/planning.h"
#include "src/sketch_pass.h"

namespace tallsketch {

Referee::Referee(const KeptRows& rows, RowSource& source, Backend& backend, const SolveContext& context)
    : context_(context), rows_(rows) {
  Attempt attempt;
  attempt.sketch.precision = SketchPrecision::kFp64;
  attempt.sketch.oversample = 16;
  Report scratch;
  const SketchJob job = plan_together(attempt, {}, 0, &rows.job, source, backend, context, scratch);
  context.comm.together([&] {
    require(job.kept, ErrorKind::kMemory, "no memory for the FP64 sketch that judges; use a smaller --bytes");
  });
  const FinishedSketch sketch = sketch_in_range(job, rows.b_norms, source, backend, context, scratch);
  context.comm.together([&] {
    require(sketch.exponents.empty(), ErrorKind::kInternal, "made-up rows leave the range of an FP64 sketch");
    if (!context.comm.is_root()) return;
    const std::optional<TriangularFactor> factor = backend.factor({});
    require(factor.has_value(), ErrorKind::kInternal, "QR returned no factor");
    const ReducedSolution solution = solve_reduced(*factor, job.spec.d);
    require(solution.rank == factor->n, ErrorKind::kRankDeficient,
            "the made-up problem has lost rank; use a smaller --cond");
    preconditioner_ = solution.preconditioner;
    exponent_.assign(factor->exponent.begin(), factor->exponent.begin() + factor->n);
  });
}

double Referee::judge(const std::vector<double>& x, Backend& backend) const {
  const Communicator& comm = context_.comm;
  const ProblemShape& shape = rows_.job.shape;
  const auto n = static_cast<std::size_t>(shape.n), r = static_cast<std::size_t>(shape.r);
  std::vector<double> same = comm.is_root() ? x : std::vector<double>(n * r);
  comm.broadcast(same.data(), static_cast<std::int64_t>(same.size() * sizeof(double)));
  NormalSums sums;
  comm.together([&] {
    backend.normal_begin(same, true);
    backend.normal_add_kept();
    sums = backend.normal_end();
  });
  comm.sum(sums.gradient.data(), static_cast<std::int64_t>(sums.gradient.size()));
  comm.sum(sums.residual_squares.data(), static_cast<std::int64_t>(sums.residual_squares.size()));
  double worst = std::numeric_limits<double>::quiet_NaN();
  comm.together([&] {
    if (comm.is_root()) worst = largest_error(same, sums);
  });
  return worst;
}

double Referee::largest_error(const std::vector<double>& same, const NormalSums& sums) const {
  const std::size_t n = exponent_.size(), r = sums.residual_squares.size();
  const BackwardErrorCertificate certificate(*preconditioner_);
  double worst = 0;
  for (std::size_t k = 0; k < r; ++k) {
    NormalResidual residual;
    std::vector<double> y;
    for (std::size_t i = 0; i < n; ++i) {
      residual.gradient.push_back(std::ldexp(sums.gradient[i * r + k], exponent_[i]));
      y.push_back(std::ldexp(same[i * r + k], -exponent_[i]));
    }
    residual.residual_norm = std::sqrt(sums.residual_squares[k]);
    residual.solution_norm = norm_of(y);
    residual.rhs_norm = rows_.b_norms[k];
    worst = std::max(worst, certificate.estimate(residual));
  }
  return worst;
}

}  // namespace tallsketch
