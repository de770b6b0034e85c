// Whether paper B's kernel (kernels/flash.h) serves a sketch on the current device.
// Called by cuda_backend and the CUDA timing before anything is allocated.
#pragma once

#include "kernels/sketch_spec.h"

namespace tallsketch {

/// Errors: kUsage unless the sketch is BlockPerm, FP32, and its tile fits the shared memory of a CTA.
void require_flash(const SketchSpec& spec);

}  // namespace tallsketch
