// inspect --gpus: what a solve would take on a cluster, told as tables and advice, or as JSON. Called by inspect.
#pragma once

#include "src/options.h"
#include "src/row_source.h"

namespace tallsketch {

class Communicator;
class Progress;

/// Collective. Errors: kUsage for lists of ranks without --gpus, for --gpus without ranks, and for nodes and threads that do not
/// go with them
void check_cluster(const InspectOptions& options, const Communicator& comm);

/// Collective. out  takes the lines for people
/// Errors  kMemory where no number of ranks is enough; kUsage for more memory than the GPU has
void predict_scaling(const InspectOptions& options, const RowSource& source, const Communicator& comm, Progress& out);

}  // namespace tallsketch
