// tallsketch solve: opens the input, solves, writes x and the report, and tells the user how it went.

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "drivers/commands.h"
#include "drivers/output_files.h"
#include "drivers/reported_run.h"
#include "src/atomic_file.h"
#include "src/communicator.h"
#include "src/error.h"
#include "src/file_source.h"
#include "src/from_sketch.h"
#include "src/hdf5_writer.h"
#include "src/open_source.h"
#include "src/progress.h"
#include "src/solver.h"
#include "src/text.h"

namespace tallsketch {

namespace {

const char* over_columns(const Report& report) { return report.shape->r == 1 ? "" : " over all columns"; }

void tell_residual_of_sketch(const Report& report, Progress& progress) {
  const SolverOutcome& s = report.solver;
  const auto freedom = static_cast<double>(report.sketch->d - s.check_rows - *s.rank);
  progress.line(fmt::format(
      "residual: ||A x - b|| about {:.3g}{}, {:.3g} of ||b|| (standard deviation {:.0f} %); expected {:.0f} % above "
      "the least residual",
      *s.residual_norm, over_columns(report), *s.relative_residual, 100 / std::sqrt(freedom),
      100 * *s.residual_excess_estimate));
  if (s.residual_check && s.residual_excess_check) {
    progress.line(
        fmt::format("residual by {} sketch rows that x has not seen: {:.3g}, {:.0f} % above the least (standard "
                    "deviation {:.0f} %)",
                    s.check_rows, *s.residual_check, 100 * *s.residual_excess_check,
                    100 / std::sqrt(2.0 * static_cast<double>(s.check_rows * report.shape->r))));
  }
  progress.line(fmt::format("backward error: about {:.2g} of ||A||, estimated; --method refine certifies one",
                            *s.backward_error_estimate));
  if (s.x_error_estimate) {
    progress.line(fmt::format("x against the least-squares x: expected to differ by about {:.2g} of the norm of this x",
                              *s.x_error_estimate));
  }
}

void tell_residual_of_refinement(const Report& report, Progress& progress) {
  const SolverOutcome& s = report.solver;
  progress.line(fmt::format("refine: {} after {} passes over A: backward error {:.2g} of ||A||, certified by the {}",
                            s.converged ? "converged" : "NOT converged (" + s.reason + ")", s.passes, *s.backward_error,
                            s.preconditioner == to_word(PreconditionerChoice::kGram) ? "Gram matrix" : "sketch"));
  progress.line(fmt::format(
      "residual: ||A x - b|| = {:.6g}{}, {:.3g} of ||b||, {:.1g} % above the least; ||A^T (A x - b)|| = {:.2g}, "
      "columns "
      "scaled{}",
      *s.residual_norm, over_columns(report), *s.relative_residual, 100 * s.residual_excess_estimate.value_or(0),
      *s.normal_residual, s.ridge > 0 ? "; all with the rows of the ridge" : ""));
}

void tell_outcome(const Report& report, const std::string& output, Progress& progress) {
  const SolverOutcome& s = report.solver;
  progress.line(fmt::format("x: n = {}{}, ||x|| = {:.6g}, written to {}", report.shape->n,
                            report.shape->r == 1 ? std::string() : fmt::format(", r = {}", report.shape->r), *s.x_norm,
                            output));
  if (s.backward_error) {
    tell_residual_of_refinement(report, progress);
  } else {
    tell_residual_of_sketch(report, progress);
  }
  progress.line(fmt::format("condition of A with scaled columns about {:.3g}, matrix rank {} of {}, by {}",
                            *s.condition_estimate, *s.rank, report.shape->n, s.reduced_solver));
  if (s.standard_error_spread) {
    progress.line(fmt::format("standard errors: in /standard_errors, by the {}, uncertain by {:.2g} %",
                              s.preconditioner == to_word(PreconditionerChoice::kGram) ? "Gram matrix" : "sketch",
                              100 * *s.standard_error_spread));
  }
}

/// x is written by now, and says in its provenance how good it is.
void require_converged(const SolverOutcome& s) {
  require(s.converged, ErrorKind::kNotConverged,
          fmt::format(
              "refinement has not converged: {} after {} passes over A, backward error {:.2g}; x is written all "
              "the same; {}more --max-iters or a larger --tol may help",
              s.reason, s.passes, s.backward_error.value_or(std::numeric_limits<double>::infinity()),
              s.preconditioner == to_word(PreconditionerChoice::kGram) ? "--preconditioner sketch, "
                                                                       : "a larger --oversample, --precision fp64, "));
}

/// What the residual does not tell: x may be far from the least-squares solution although it fits nearly as well.
void warn_of_x(Report& report) {
  const SolverOutcome& s = report.solver;
  const SketchPrecision precision = report.sketch->precision;
  const bool refined = s.backward_error.has_value();
  // Above, x has about one digit: a relative error of condition times the sketch's rounding, or the certificate.
  const double resolved = refined ? 0.1 / *s.backward_error : precision == SketchPrecision::kFp64 ? 5e13 : 1e5;
  constexpr double kFar = 0.3;  // of ||x||: single coefficients may then have the wrong sign
  if (*s.rank < report.shape->n) {
    report.warnings.push_back(fmt::format(
        "the columns of A are dependent as far as an {} sketch can tell (matrix rank {} of {}): of many x that "
        "fit as well, this is the one of least norm",
        to_word(precision), *s.rank, report.shape->n));
  } else if (*s.condition_estimate > resolved) {
    report.warnings.push_back(fmt::format(
        "the condition {:.2g} is near what {} can resolve: few digits of x are certain", *s.condition_estimate,
        refined ? std::string("this backward error") : fmt::format("an {} sketch", to_word(precision))));
  }
  if (s.x_error_estimate && *s.x_error_estimate > kFar) {
    report.warnings.push_back(
        "single coefficients of x may have the wrong size or sign, although x fits nearly as well as "
        "the least-squares solution; raise --oversample, and compare several --seed");
  }
}

/// Rounding while A was stored, which no solver can undo: what it may have done to x, where that is noticeable.
void warn_of_stored_precision(Report& report) {
  constexpr std::array<std::pair<std::string_view, double>, 3> kRoundoff = {
      {{"float32", 0x1p-24}, {"float16", 0x1p-11}, {"bfloat16", 0x1p-8}}};
  constexpr double kNoticed = 0.005;                  // of ||x||, columns scaled
  if (*report.solver.rank < report.shape->n) return;  // a condition is only that of what is left
  const std::string_view dtype = report.source.dtype;
  for (const auto& [type, roundoff] : kRoundoff) {
    const double moved = *report.solver.condition_estimate * roundoff;
    if (!dtype.starts_with(type) || moved <= kNoticed) continue;
    report.warnings.push_back(fmt::format(
        "A is {}: if its numbers were rounded to that, x may be off by about {:.2g} % for it alone (condition {:.2g} "
        "times {:.1g}); store A as float64",
        type, 100 * std::min(1.0, moved), *report.solver.condition_estimate, roundoff));
  }
}

}  // namespace

int run_solve(const SolveOptions& options, const Communicator& comm) {
  ReportedRun run(comm, options.run, options.report, options.command_line);
  const bool has_rows = !options.input.files.empty() || options.synthetic.kind;
  InputOptions named = options.input;
  if (!has_rows) named.files = {options.from_sketch};
  const std::string output =
      options.output.empty() ? default_output(named, options.synthetic, ".x.h5") : options.output;
  std::optional<double> error_of_x;  // against the x that a synthetic problem was made with
  run.attempt([&] {
    std::optional<MadeSketch> made;
    if (!options.from_sketch.empty()) {
      run.watchdog.enter("open");
      made = run.timer.time(Phase::kOpen, [&] { return read_made_sketch(options.from_sketch, comm); });
    }
    if (has_rows) run.open(options.input, options.synthetic);
    const OpenedSource& opened = run.source;
    comm.together([&] {
      if (!comm.is_root()) return;
      std::vector<std::string> inputs = input_paths(options.input);
      if (made) inputs.push_back(made->name);
      check_outputs(inputs,
                    {{"--output", output}, {"--report", options.report}, {"--checkpoint", options.checkpoint.path}});
      require(has_rows || options.checkpoint.path.empty(), ErrorKind::kUsage,
              "--checkpoint saves passes over A; there are none without FILE: leave it out");
      require(!made || !is_half(made->sketch.spec.precision) || options.checkpoint.path.empty(), ErrorKind::kUsage,
              fmt::format("--checkpoint saves sketches in fp32 and fp64, and that of '{}' is in {}: leave --checkpoint "
                          "out, or make the sketch with --precision fp32",
                          made ? made->name : "", made ? to_word(made->sketch.spec.precision) : ""));
    });
    if (has_rows) {
      std::vector<IdentityField> fields = run_fields(*opened.rows, options.sketch, options.method);
      fields.push_back({"--from-sketch", options.from_sketch});
      fields.push_back({"input sketch", made ? made->sketch.checksum : ""});
      run.keep_checkpoints(options.checkpoint, std::move(fields), options.sketch);
    }
    run.start_backend();
    const ProblemShape shape = has_rows ? opened.rows->shape() : made->sketch.shape();
    if (!has_rows) run.report.source = info_of(*made);
    const Solution solution =
        has_rows ? solve(options.sketch, options.method, options.run.chunk_rows, *opened.rows, *run.backend,
                         run.context(), run.report, nullptr, made ? &*made : nullptr)
                 : solve_from_sketch(*made, options.sketch, options.method, *run.backend, run.context(), run.report);
    run.write("solved", [&] {
      warn_of_x(run.report);
      warn_of_stored_precision(run.report);
      if (!opened.x_true.empty()) error_of_x = relative_error(solution.x, opened.x_true);
      write_file_atomically(output, solution_image(solution, shape.n, shape.r, provenance_json(run.report)));
    });
    comm.together([&] {
      if (comm.is_root()) require_converged(run.report.solver);
    });
  });
  const auto tell = [&] {
    tell_outcome(run.report, output, run.progress);
    if (error_of_x) {
      run.progress.line(
          fmt::format("error of x against x_true: {:.2g} of ||x_true||, noise of b included", *error_of_x));
    }
  };
  return run.finish(tell, fmt::format("x is complete in '{}'", output));
}

}  // namespace tallsketch
