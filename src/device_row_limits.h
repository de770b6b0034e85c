// What the rows of a job take in the memory of a GPU and of its host, as DeviceRows holds them: for the plan of the CUDA
// backend, and of a GPU that is not here. Pure.
#pragma once

#include <cstddef>

#include "src/backend.h"

namespace tallsketch {

inline constexpr int kDeviceLanes = 4;           // page-locked buffers of chunks
inline constexpr std::size_t kDeviceStages = 2;  // chunks on the device: one is filled while the other is computed with
inline constexpr double kHostShare = 0.75;       // of free host memory that may be page-locked: the rest is others' and
                                                 // the pages of files

/// Whether chunks are on the device what they are on the host, byte for byte.
bool is_dense_on_device(const SketchJob& job);

/// Whether the column factors of a sketch depend on the data: all rows must then be seen before the first is added, and stay.
bool scales_by_data(const SketchSpec& spec, ScalingChoice scaling);

/// The limits of a job but for memory, chunk_rows and scratch.
PlanLimits device_row_limits(const SketchJob& job, ResidencyChoice asked);

}  // namespace tallsketch
