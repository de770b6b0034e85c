#include "src/report.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "src/communicator.h"
#include "src/environment.h"
#include "src/options.h"
#include "src/text.h"
#include "src/version.h"

namespace tallsketch {

namespace {

using Json = nlohmann::ordered_json;

/// JSON has no NaN and no Infinity.
Json number(const std::optional<double>& value) {
  return value && std::isfinite(*value) ? Json(*value) : Json(nullptr);
}

Json tool_json(const Report& report) {
  Json libraries = Json::object();
  for (const auto& list : {common_libraries(), report.libraries}) {
    for (const Library& library : list) libraries[library.name] = library.version;
  }
  return {{"version", version_number()}, {"git", version_git()}, {"build", build_text()}, {"libraries", libraries}};
}

Json environment_json() {
  Json environment = Json::object();
  for (const auto& [name, value] : recorded_environment()) environment[name] = value;
  return environment;
}

Json problem_json(const Report& report) {
  Json problem = {{"files", report.source.files}, {"a", report.source.a_name}, {"b", report.source.b_name}};
  problem["m"] = report.shape ? Json(report.shape->m) : Json(nullptr);
  problem["n"] = report.shape ? Json(report.shape->n) : Json(nullptr);
  problem["r"] = report.shape ? Json(report.shape->r) : Json(nullptr);
  problem["dtype"] = report.shape ? Json(report.source.dtype) : Json(nullptr);
  problem["computed_dtype"] = report.shape ? Json(to_word(report.shape->a_type)) : Json(nullptr);
  problem["layout"] = report.shape ? Json(report.source.layout) : Json(nullptr);
  return problem;
}

Json sketch_json(const Report& report) {
  if (!report.sketch) return nullptr;
  const SketchSpec& spec = *report.sketch;
  Json sketch = {{"used", report.solver.preconditioner != to_word(PreconditionerChoice::kGram)},
                 {"family", to_word(spec.family)},
                 {"hash", to_word(spec.hash)},
                 {"d", spec.d},
                 {"check_rows", report.solver.check_rows},
                 {"zeta", spec.zeta},
                 {"batch_rows", spec.batch_rows},
                 {"seed", spec.seed},
                 {"precision", to_word(spec.precision)},
                 {"rounding", to_word(spec.rounding)}};
  if (spec.family == SketchFamily::kBlockPerm) {
    sketch["kappa"] = spec.kappa;
    sketch["block_nnz"] = spec.block_nnz;
    sketch["block_rows"] = spec.block_rows;
    sketch["input_blocks"] = to_word(spec.input_blocks);
  }
  if (!report.sketch_rows.empty()) {
    sketch["file"] = report.sketch_file.empty() ? Json(nullptr) : Json(report.sketch_file);
    sketch["rows"] = Json::array();
    for (const RowRange& range : report.sketch_rows) sketch["rows"].push_back({range.begin, range.end});
  }
  return sketch;
}

Json precision_json(const Report& report) {
  if (!report.sketch) return nullptr;
  const bool gram = report.solver.preconditioner == to_word(PreconditionerChoice::kGram);
  const bool wide = gram || report.sketch->precision == SketchPrecision::kFp64;
  const bool cholesky = report.solver.reduced_solver == to_word(ReducedSolverChoice::kCholesky);
  return {{"data", to_word(report.shape->a_type)},
          {"sketch", to_word(report.sketch->precision)},
          {"scaling", report.scaling},
          {"overflowed", report.losses ? Json(report.losses->overflowed) : Json(nullptr)},
          {"flushed", report.losses ? Json(report.losses->flushed) : Json(nullptr)},
          {"reduce", wide ? "fp64" : report.reduce},
          {"factor", wide || cholesky ? "fp64" : "fp32"},
          {"solve", "fp64"}};
}

Json solver_json(const SolverOutcome& s) {
  Json rank = nullptr;
  if (s.rank) rank = *s.rank;
  const auto word = [](const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); };
  return {{"method", s.method},
          {"preconditioner", word(s.preconditioner)},
          {"reduced_solver", word(s.reduced_solver)},
          {"ridge", s.ridge},
          {"converged", s.converged},
          {"reason", s.reason},
          {"iterations", s.iterations},
          {"passes", s.passes},
          {"backward_error", number(s.backward_error)},
          {"backward_error_estimate", number(s.backward_error_estimate)},
          {"residual_norm", number(s.residual_norm)},
          {"relative_residual", number(s.relative_residual)},
          {"residual_excess_estimate", number(s.residual_excess_estimate)},
          {"residual_check", number(s.residual_check)},
          {"residual_excess_check", number(s.residual_excess_check)},
          {"standard_error_spread", number(s.standard_error_spread)},
          {"x_error_estimate", number(s.x_error_estimate)},
          {"normal_residual", number(s.normal_residual)},
          {"condition_estimate", number(s.condition_estimate)},
          {"rank", rank},
          {"x_norm", number(s.x_norm)}};
}

Json plan_json(const Report& report) {
  if (!report.plan) return nullptr;
  const Plan& plan = *report.plan;
  Json rows = Json::array();
  for (const RowRange& range : plan.rank_rows) rows.push_back({range.begin, range.end});
  return {{"backend", report.backend}, {"residency", to_word(plan.residency)}, {"chunk_rows", plan.chunk_rows},
          {"passes", plan.passes},     {"memory_bytes", plan.total_bytes()},   {"rank_rows", rows}};
}

Json timing_json(const Report& report) {
  Json timing = Json::object();
  const std::size_t ranks = report.phase_seconds.size() / kPhases;
  for (std::size_t phase = 0; phase < kPhases; ++phase) {
    if (ranks == 0) {
      timing[kPhaseNames[phase]] = nullptr;
      continue;
    }
    double least = report.phase_seconds[phase], most = least, sum = 0;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      const double seconds = report.phase_seconds[rank * kPhases + phase];
      least = std::min(least, seconds);
      most = std::max(most, seconds);
      sum += seconds;
    }
    timing[kPhaseNames[phase]] = {{"min", least}, {"mean", sum / static_cast<double>(ranks)}, {"max", most}};
  }
  return timing;
}

Json comm_json(const Report& report) {
  const auto word = [](const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); };
  Json ranks = Json::array();
  for (const RankPlace& place : report.ranks) {
    ranks.push_back({{"rank", ranks.size()},
                     {"host", place.host},
                     {"device", place.label()},
                     {"uuid", word(place.uuid)},
                     {"driver", word(place.driver)},
                     {"links", word(place.links)}});
  }
  return {{"size", report.size}, {"nodes", report.nodes}, {"library", report.reduce_library}, {"ranks", ranks}};
}

Json io_json(const Report& report) {
  double slowest = 0;
  for (std::size_t rank = 0; rank * kPhases < report.phase_seconds.size(); ++rank) {
    slowest = std::max(slowest, report.phase_seconds[rank * kPhases + static_cast<std::size_t>(Phase::kRead)]);
  }
  const auto bytes = static_cast<double>(report.bytes_read);
  return {{"mode", report.source.io_mode},
          {"bytes", report.bytes_read},
          {"gb_per_s", slowest > 0 ? Json(bytes / slowest / 1e9) : Json(nullptr)}};
}

}  // namespace

std::vector<RankPlace> gather_places(const Communicator& comm, const RankPlace& mine) {
  const Json fields = {mine.host, mine.device, mine.ordinal, mine.uuid, mine.driver, mine.links};
  std::vector<RankPlace> places;
  for (const std::string& text : comm.gather(fields.dump())) {
    const Json entry = Json::parse(text);
    places.push_back({entry[0], entry[1], entry[2], entry[3], entry[4], entry[5]});
  }
  return places;
}

void gather_ranks(Report& report, const Communicator& comm, const RankPlace& mine, const PhaseTimer& timer) {
  report.ranks = gather_places(comm, mine);
  report.phase_seconds = comm.gather(std::vector<double>(timer.all().begin(), timer.all().end()));
}

std::string to_json(const Report& report) {
  std::vector<std::string> warnings = report.warnings;
  warnings.insert(warnings.end(), report.source.warnings.begin(), report.source.warnings.end());
  warnings.emplace_back(
      report.solver.backward_error     ? "null fields of solver: estimates that only sketch-solve needs"
      : report.solver.method == "none" ? "null fields of solver: a sketch was asked for, and no x"
      : report.exit_code == 0
          ? "null fields of solver: sketch-solve reads A once; backward error and normal residual need "
            "a second pass and are not measured; residual figures are estimates from the sketch"
          : "null fields: not reached, see status and message");
  const Json json = {{"schema_version", 1},
                     {"tool", tool_json(report)},
                     {"command_line", report.command_line},
                     {"environment", environment_json()},
                     {"status", report.status},
                     {"exit_code", report.exit_code},
                     {"message", report.message.empty() ? Json(nullptr) : Json(report.message)},
                     {"problem", problem_json(report)},
                     {"sketch", sketch_json(report)},
                     {"precision", precision_json(report)},
                     {"solver", solver_json(report.solver)},
                     {"plan", plan_json(report)},
                     {"timing", timing_json(report)},
                     {"comm", comm_json(report)},
                     {"io", io_json(report)},
                     {"warnings", warnings}};
  // Text from outside (file names, launcher output) need not be UTF-8; the report must be.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string provenance_json(const Report& report) {
  const Json json = {{"tool", tool_json(report)},           {"command_line", report.command_line},
                     {"environment", environment_json()},   {"problem", problem_json(report)},
                     {"sketch", sketch_json(report)},       {"precision", precision_json(report)},
                     {"solver", solver_json(report.solver)}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace tallsketch
