// What makes a step of a predicted solve shorter, for people. Only what changes something: no option that is in force already,
// none that the method does not have. Pure. Used by drivers/inspect_scaling.
#pragma once

#include <string>

#include "src/choices.h"
#include "src/scaling_model.h"

namespace tallsketch {

/// What the user has settled, beside the job itself.
struct AskedFor {
  ResidencyChoice residency = ResidencyChoice::kAuto;
  bool memory = false;        // --memory
  bool direct_reads = false;  // the files are read without their library
};

/// "files striped over more servers; more nodes"
/// now  the prediction of job on this cluster
std::string advice_for(Step step, const ScalingJob& job, const Prediction& now, const Cluster& cluster,
                       const AskedFor& asked);

}  // namespace tallsketch
