#include "src/refine.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <optional>

#include "kernels/philox.h"
#include "src/certificate.h"
#include "src/error.h"

namespace tallsketch {

namespace {

using Vector = std::vector<double>;

constexpr double kUnitRoundoff = std::numeric_limits<double>::epsilon() / 2;
/// CG stops at this share of the tolerance, so that the pass that judges x need not be lucky.
constexpr double kTargetShare = 0.5;
/// A gradient within this factor of its rounding starts a round that corrects rounding.
constexpr double kNoisy = 10;
/// Steps without halving the preconditioned gradient that end a round; sound sketches halve it in 2 (d = 4n) to 28
/// (d = 1.05 n) steps.
constexpr int kPatience = 40;
constexpr int kFailedRounds = 2;
constexpr double kGrowthThatDiverges = 100;
/// A sketch of d >= n rows stretches lengths by 2 or a little more: ||A D N z|| >= ||z|| / 2, about.
constexpr double kLeastStretch = 0.25;

double dot(const Vector& a, const Vector& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

/// y += factor * x
void add_multiple(double factor, const Vector& x, Vector& y) {
  for (std::size_t i = 0; i < y.size(); ++i) y[i] += factor * x[i];
}

bool all_finite(const Vector& v) {
  return std::all_of(v.begin(), v.end(), [](double value) { return std::isfinite(value); });
}

/// The pass in the scaled columns and with the ridge: what A D y and the rows sqrt(ridge) D y give together. Counts.
class ScaledPass {
 public:
  ScaledPass(const NormalPass& pass, const std::vector<int>& exponent, std::int64_t r, const RefineOptions& options)
      : pass_(pass), exponent_(exponent), r_(static_cast<std::size_t>(r)) {
    for (std::size_t i = 0; i < exponent.size(); ++i) {
      ridge_.push_back(std::ldexp(options.ridge, options.ridge_exponent.empty() ? 0 : 2 * options.ridge_exponent[i]));
    }
  }

  struct Sums {
    std::vector<Vector> gradient;  // r times (n)
    Vector squares;                // (r)
    bool finite(std::size_t k) const { return std::isfinite(squares[k]) && all_finite(gradient[k]); }
  };

  /// columns  r times (n); an empty one counts as 0
  Sums operator()(const std::vector<const Vector*>& columns, bool with_b) {
    ++count_;
    const Vector x = unscaled(columns);
    const NormalSums sums = pass_(x, with_b);
    const std::size_t n = exponent_.size();
    assert(sums.gradient.size() == n * r_ && sums.residual_squares.size() == r_);
    Sums scaled{std::vector<Vector>(r_, Vector(n)), sums.residual_squares};
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t k = 0; k < r_; ++k) {
        const double value = x[i * r_ + k];
        scaled.gradient[k][i] = std::ldexp(sums.gradient[i * r_ + k] - ridge_[i] * value, exponent_[i]);
        scaled.squares[k] += ridge_[i] * value * value;
      }
    }
    return scaled;
  }

  /// D y for every column, (n, r) row-major
  Vector unscaled(const std::vector<const Vector*>& columns) const {
    Vector x(exponent_.size() * r_, 0.0);
    for (std::size_t k = 0; k < r_; ++k) {
      for (std::size_t i = 0; i < columns[k]->size(); ++i) x[i * r_ + k] = std::ldexp((*columns[k])[i], exponent_[i]);
    }
    return x;
  }

  std::int64_t count() const { return count_; }

 private:
  const NormalPass& pass_;
  const std::vector<int>& exponent_;
  std::size_t r_;
  Vector ridge_;  // (n)
  std::int64_t count_ = 0;
};

/// || N^T diag(||R e_j||) ||_F: how much larger the rounding of a gradient, u ||a_j|| ||r|| in its j-th element, looks after
/// N^T. Estimated from random signs (Hutchinson), a few tens of per cent off.
double rounding_growth(const Preconditioner& preconditioner) {
  constexpr int kProbes = 8;
  Vector norms;
  for (std::int64_t j = 0; j < preconditioner.size(); ++j) norms.push_back(preconditioner.column_norm(j));
  double squares = 0;
  for (int probe = 0; probe < kProbes; ++probe) {
    Vector v = norms;
    for (std::size_t j = 0; j < v.size(); ++j) {
      const RandomWords words =
          random_words(0, static_cast<std::int64_t>(j), DrawPurpose::kVectors, static_cast<std::uint32_t>(probe));
      if ((words.word[0] & 1U) != 0) v[j] = -v[j];
    }
    const Vector s = preconditioner.apply_transposed(v);
    squares += dot(s, s);
  }
  return std::sqrt(squares / kProbes);
}

/// What a round of CG needs to know besides its right-hand side.
struct RoundRules {
  const Preconditioner& preconditioner;
  const BackwardErrorCertificate& certificate;
  double growth;  // rounding_growth
  double target;  // of the backward error
};

/// CG for one right-hand side and one round: (A D)^T A D dy = gradient, preconditioned by N N^T. The passes are the caller's.
class ConjugateGradients {
 public:
  /// residual  at y, the round's start
  ConjugateGradients(const RoundRules& rules, const Vector& y, const NormalResidual& residual)
      : rules_(rules), y_(y), now_(residual), correction_(y.size(), 0.0) {
    const Vector s = preconditioned_gradient();
    s_squares_ = lowest_ = dot(s, s);
    const double s_norm = std::sqrt(s_squares_);
    floor_ = kUnitRoundoff * rules_.growth * now_.residual_norm;
    if (s_norm <= kNoisy * floor_) floor_ = kUnitRoundoff * rules_.growth * s_norm;
    p_ = s;
    aim();
    open_ = s_norm > 0;
  }

  bool open() const { return open_; }
  /// What the next pass must be made of, without b; empty once the round is over.
  const Vector& direction() const { return direction_; }
  const Vector& correction() const { return correction_; }

  /// Takes the pass of direction(): gradient -(A D)^T A D direction, curvature ||A D direction||^2; finite.
  /// Returns the stretch ||A D N p|| / ||p||.
  double step(const Vector& product, double curvature) {
    const double stretch = std::sqrt(curvature / dot(p_, p_));
    if (!(curvature > 0)) {
      close();
      return stretch;
    }
    const double length = s_squares_ / curvature;
    add_multiple(length, direction_, correction_);
    add_multiple(length, product, now_.gradient);
    const Vector s = preconditioned_gradient();
    const double before = s_squares_;
    s_squares_ = dot(s, s);
    if (finished()) {
      close();
      return stretch;
    }
    for (std::size_t i = 0; i < p_.size(); ++i) p_[i] = s[i] + s_squares_ / before * p_[i];
    aim();
    return stretch;
  }

 private:
  Vector preconditioned_gradient() const { return rules_.preconditioner.apply_transposed(now_.gradient); }
  void aim() { direction_ = rules_.preconditioner.apply(p_); }
  void close() {
    open_ = false;
    direction_.clear();
  }
  bool finished() {
    if (!(s_squares_ > 0 && std::isfinite(s_squares_))) return true;
    steps_since_lowest_ += 1;
    if (s_squares_ <= lowest_ / 4) {
      lowest_ = s_squares_;
      steps_since_lowest_ = 0;
    }
    Vector y = y_;
    add_multiple(1, correction_, y);
    now_.solution_norm = norm_of(y);
    const double s_norm = std::sqrt(s_squares_);
    return s_norm <= floor_ || rules_.certificate.bound(now_, s_norm) <= rules_.target ||
           steps_since_lowest_ >= kPatience;
  }

  RoundRules rules_;
  const Vector& y_;
  NormalResidual now_;  // its residual norm stays the round's first
  Vector correction_, p_, direction_;
  double s_squares_ = 0, lowest_ = 0, floor_ = 0;
  int steps_since_lowest_ = 0;
  bool open_ = false;
};

/// One right-hand side: where it stands, and the best that it has seen.
struct Column {
  Vector y, best;  // (n), scaled
  double rhs_norm = 0;
  NormalResidual residual;         // of y
  double preconditioned_norm = 0;  // ||N^T g|| of its gradient g
  double best_error = std::numeric_limits<double>::infinity();
  double best_residual = 0, best_gradient = 0, best_preconditioned = 0;  // norms
  int failed_rounds = 0;
  bool active = true;
  RefineReason reason = RefineReason::kStepLimit;
  std::optional<ConjugateGradients> cg;  // of the running round

  bool open() const { return cg && cg->open(); }
  void end(RefineReason why) {
    active = false;
    reason = why;
  }
};

class Refinement {
 public:
  Refinement(const SketchedFactor& factor, const Vector& start, const Vector& rhs_norm, const RefineOptions& options,
             const NormalPass& pass)
      : factor_(factor),
        options_(options),
        pass_(pass, factor.exponent, static_cast<std::int64_t>(rhs_norm.size()), options),
        certificate_(*factor.preconditioner),
        growth_(rounding_growth(*factor.preconditioner)),
        columns_(rhs_norm.size()) {
    const std::size_t r = rhs_norm.size(), n = factor.exponent.size();
    for (std::size_t k = 0; k < r; ++k) {
      for (std::size_t i = 0; i < n; ++i) {
        columns_[k].y.push_back(std::ldexp(start[i * r + k], -factor.exponent[i]));
      }
      columns_[k].best = columns_[k].y;
      columns_[k].rhs_norm = rhs_norm[k];
    }
  }

  RefineResult run() {
    judge();
    while (any_active() && pass_.count() + 2 <= options_.max_passes) {  // a step and a judgement
      ++result_.rounds;
      run_round();
      judge();
    }
    return finish();
  }

 private:
  bool any_active() const {
    return std::any_of(columns_.begin(), columns_.end(), [](const Column& column) { return column.active; });
  }

  bool any_open() const {
    return std::any_of(columns_.begin(), columns_.end(), [](const Column& column) { return column.open(); });
  }

  /// R holds directions that A D does not: no certificate by R can be believed.
  bool misfit() const { return result_.least_stretch < kLeastStretch; }

  /// One pass with b: the backward error of every active column, and what follows from it.
  void judge() {
    std::vector<const Vector*> at;
    for (const Column& column : columns_) at.push_back(&column.y);
    const ScaledPass::Sums sums = pass_(at, true);
    for (std::size_t k = 0; k < columns_.size(); ++k) {
      Column& column = columns_[k];
      if (!column.active) continue;
      if (!sums.finite(k)) {
        column.end(RefineReason::kDiverged);
        continue;
      }
      column.residual = {sums.gradient[k], std::sqrt(sums.squares[k]), norm_of(column.y), column.rhs_norm};
      const Vector s = factor_.preconditioner->apply_transposed(column.residual.gradient);
      column.preconditioned_norm = norm_of(s);
      weigh(column, backward_error(column));
    }
  }

  /// The bound where it is enough: always for the start, which only an exact fit lets pass.
  double backward_error(const Column& column) const {
    const double bound = certificate_.bound(column.residual, column.preconditioned_norm);
    if (bound <= options_.tolerance || result_.rounds == 0) return bound;
    return certificate_.estimate(column.residual);
  }

  void weigh(Column& column, double error) const {
    const bool diverged = !(error <= kGrowthThatDiverges * column.best_error);  // or NaN
    column.failed_rounds = error <= column.best_error / 2 ? 0 : column.failed_rounds + 1;
    if (error < column.best_error) {
      column.best = column.y;
      column.best_error = error;
      column.best_residual = column.residual.residual_norm;
      column.best_gradient = norm_of(column.residual.gradient);
      column.best_preconditioned = column.preconditioned_norm;
    }
    const bool tested = result_.iterations > 0 || error == 0;  // R, by a step of CG
    if (misfit()) {
      column.end(RefineReason::kSketchMisfit);
    } else if (column.best_error <= options_.tolerance && tested) {
      column.end(RefineReason::kCertificateMet);
    } else if (diverged) {
      column.end(RefineReason::kDiverged);
    } else if (column.failed_rounds == kFailedRounds) {
      column.end(RefineReason::kStagnated);
    }
  }

  /// CG for all active columns side by side, one pass a step, until all are done; leaves one pass for judge().
  void run_round() {
    const RoundRules rules{*factor_.preconditioner, certificate_, growth_, kTargetShare * options_.tolerance};
    for (Column& column : columns_) {
      if (column.active) column.cg.emplace(rules, column.y, column.residual);
    }
    while (any_open() && !misfit() && pass_.count() + 1 < options_.max_passes) step();
    for (Column& column : columns_) {
      if (column.cg) add_multiple(1, column.cg->correction(), column.y);
      column.cg.reset();
    }
  }

  void step() {
    const Vector none;
    std::vector<const Vector*> directions;
    for (const Column& column : columns_) directions.push_back(column.cg ? &column.cg->direction() : &none);
    const ScaledPass::Sums sums = pass_(directions, false);
    ++result_.iterations;
    for (std::size_t k = 0; k < columns_.size(); ++k) {
      Column& column = columns_[k];
      if (!column.open()) continue;
      if (!sums.finite(k)) {
        column.cg.reset();
        column.end(RefineReason::kDiverged);
        continue;
      }
      result_.least_stretch = std::min(result_.least_stretch, column.cg->step(sums.gradient[k], sums.squares[k]));
    }
  }

  RefineResult finish() {
    std::vector<const Vector*> best;
    for (const Column& column : columns_) {
      best.push_back(&column.best);
      result_.backward_error.push_back(column.best_error);
      result_.residual_norm.push_back(column.best_residual);
      result_.normal_residual.push_back(column.best_gradient);
      result_.preconditioned_gradient.push_back(column.best_preconditioned);
    }
    result_.x = pass_.unscaled(best);
    result_.passes = pass_.count();
    result_.reason = RefineReason::kCertificateMet;
    for (const Column& column : columns_) {
      const bool untested = column.reason == RefineReason::kStepLimit && column.best_error <= options_.tolerance;
      result_.reason = std::max(result_.reason, untested ? RefineReason::kUntested : column.reason);
    }
    result_.converged = result_.reason == RefineReason::kCertificateMet;
    return std::move(result_);
  }

  const SketchedFactor& factor_;
  RefineOptions options_;
  ScaledPass pass_;
  BackwardErrorCertificate certificate_;
  double growth_;
  std::vector<Column> columns_;
  RefineResult result_;
};

}  // namespace

const char* reason_text(RefineReason reason) {
  switch (reason) {
    case RefineReason::kCertificateMet: return "certificate met";
    case RefineReason::kUntested:
      return "step limit before a step has tested the preconditioner; allow 3 passes or more";
    case RefineReason::kStepLimit: return "step limit";
    case RefineReason::kStagnated: return "stagnated";
    case RefineReason::kSketchMisfit: return "sketch does not fit the matrix";
    case RefineReason::kDiverged: return "diverged";
  }
  return "unknown";
}

RefineResult refine(const SketchedFactor& factor, const std::vector<double>& start, const std::vector<double>& rhs_norm,
                    const RefineOptions& options, const NormalPass& pass) {
  assert(start.size() == rhs_norm.size() * factor.exponent.size());
  assert(options.max_passes >= 0 && options.ridge >= 0);
  return Refinement(factor, start, rhs_norm, options, pass).run();
}

}  // namespace tallsketch
