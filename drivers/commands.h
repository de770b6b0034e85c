// The subcommands of tallsketch: parsed options in, exit code out; errors leave as Error, the same on every rank.
// Called by drivers/tallsketch.cpp.
#pragma once

#include "src/options.h"

namespace tallsketch {

class Communicator;

int run_solve(const SolveOptions& options, const Communicator& comm);
int run_sketch(const SketchFileOptions& options, const Communicator& comm);
int run_generate(const GenerateOptions& options, const Communicator& comm);
int run_inspect(const InspectOptions& options, const Communicator& comm);
int run_bench_sketch(const BenchSketchOptions& options, const Communicator& comm);
int run_bench_solve(const BenchSolveOptions& options, const Communicator& comm);
int run_bench_passes(const BenchPassesOptions& options, const Communicator& comm);
int run_bench_reduce(const BenchReduceOptions& options, const Communicator& comm);
int run_bench_io(const BenchIoOptions& options, const Communicator& comm);
int run_study_coherence(const StudyCoherenceOptions& options, const Communicator& comm);
int run_study_geometry(const StudyGeometryOptions& options, const Communicator& comm);
int run_study_lstsq(const StudyLstsqOptions& options, const Communicator& comm);
int run_study_range(const StudyRangeOptions& options, const Communicator& comm);

}  // namespace tallsketch
