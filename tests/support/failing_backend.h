// FailingBackend: another backend, but that one call of it fails on this rank. For tests of ranks that fail alone.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/backend.h"
#include "src/error.h"

namespace tallsketch {

class FailingBackend final : public Backend {
 public:
  /// fails  whether normal_begin does, on this rank
  FailingBackend(Backend& backend, bool fails) : backend_(backend), fails_(fails) {}

  void normal_begin(const std::vector<double>& x, bool with_b) override {
    require(!fails_, ErrorKind::kMemory, "no memory for a pass");
    backend_.normal_begin(x, with_b);
  }

  const char* name() const override { return backend_.name(); }
  RankPlace place() const override { return backend_.place(); }
  PlanLimits plan_limits(const SketchJob& job) override { return backend_.plan_limits(job); }
  SolveCosts solve_costs(const ProblemShape& shape, std::int64_t rows, RowPlace place) const override {
    return backend_.solve_costs(shape, rows, place);
  }
  void begin(const SketchJob& job) override { backend_.begin(job); }
  ChunkBuffer& next_buffer(RowRange rows) override { return backend_.next_buffer(rows); }
  int lanes() const override { return backend_.lanes(); }
  void upload(const ChunkBuffer& chunk) override { backend_.upload(chunk); }
  void take_kept() override { backend_.take_kept(); }
  void exchange() override { backend_.exchange(); }
  void sketch() override { backend_.sketch(); }
  void add_partial(const std::vector<double>& sketch) override { backend_.add_partial(sketch); }
  void restart_sketch() override { backend_.restart_sketch(); }
  void reduce() override { backend_.reduce(); }
  RoundingLosses losses() override { return backend_.losses(); }
  SketchRange sketch_range() override { return backend_.sketch_range(); }
  std::optional<TriangularFactor> factor(const FactorChoice& choice) override { return backend_.factor(choice); }
  std::vector<double> sketch_residual(const std::vector<double>& x) override { return backend_.sketch_residual(x); }
  bool keeps_rows() const override { return backend_.keeps_rows(); }
  void make_up(const MadeUpProblem& problem, std::vector<double>& squares) override {
    backend_.make_up(problem, squares);
  }
  double read_floor(int repeats) override { return backend_.read_floor(repeats); }
  std::vector<double> solve_by_qr(double& seconds) override { return backend_.solve_by_qr(seconds); }
  void normal_add(const ChunkBuffer& chunk) override { backend_.normal_add(chunk); }
  void normal_add_kept() override { backend_.normal_add_kept(); }
  NormalSums normal_end() override { return backend_.normal_end(); }
  std::vector<double> sketch_copy() override { return backend_.sketch_copy(); }
  SketchTiming time_sketch(const SketchCase& timed, int repeats) override {
    return backend_.time_sketch(timed, repeats);
  }
  PassTiming time_pass(const TimedShape& shape, int repeats) override { return backend_.time_pass(shape, repeats); }
  ReduceTiming time_reduce(const ReduceCase& timed, int repeats) override {
    return backend_.time_reduce(timed, repeats);
  }
  std::optional<double> copy_seconds(std::int64_t bytes) override { return backend_.copy_seconds(bytes); }

 private:
  Backend& backend_;
  bool fails_;
};

}  // namespace tallsketch
