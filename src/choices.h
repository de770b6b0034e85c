// What a user chooses between, and the words for it: on the command line, in the log, in reports and in benchmarks.
// One list of words each. Plain data; used by options and by whatever prints a choice.
#pragma once

#include <utility>
#include <vector>

#include "kernels/sketch_spec.h"

namespace tallsketch {

enum class BackendChoice { kAuto, kCuda, kHost };
enum class ReduceChoice { kNccl, kMpi };
enum class ScalingChoice { kAuto, kNone };
enum class SolveMethod { kRefine, kSketchSolve };
enum class ReducePrecision { kFp32, kFp16 };
enum class PreconditionerChoice { kAuto, kSketch, kGram };
enum class ReducedSolverChoice { kAuto, kQr, kCholesky, kSvd };
enum class IoChoice { kAuto, kMpio, kDirect };
enum class DataPrecision { kStored, kFp32 };
enum class RankPolicy { kError, kMinNorm };
enum class KernelChoice { kAuto, kStrip, kScatter, kFlash };
enum class ResidencyChoice { kAuto, kDevice, kHost, kFile };

/// Problems that are made, not stored; SyntheticSource says what each is.
enum class SyntheticKind { kGaussian, kCoherent, kCoordinate, kLowRank, kIllConditioned, kUniform };

/// What `bench sketch` times: the sketches and kernels of `solve`, and baselines that only it has.
enum class BenchFamily { kSparseStack, kBlockPerm, kFlashBlockRow };
enum class BenchKernel { kAuto, kStrip, kScatter, kFlash, kSpmm, kGaussian };

/// What `bench solve` times: the product's ways to x, and rivals that only it has: FP64 normal equations as they are, and
/// Householder QR of all of A.
enum class BenchRoute { kRefine, kRefineSketch, kRefineGram, kSketchCholesky, kSketchQr, kNormalEquations, kQr };

/// The kinds of S that studies compare: those of `solve`, and paper B's baselines.
enum class StudyFamily { kSparseStack, kBlockPerm, kFlashBlockRow, kGaussian };
/// What study coherence asks of a sketch: paper B's tasks.
enum class StudyTask { kGram, kOse, kRidge, kSolve };

/// Studies: which rows of an orthonormal basis are near coordinate vectors, the first n or n drawn at random.
enum class HeadRows { kFirst, kRandom };
/// The least-squares systems of paper F; StudySystem says what each is.
enum class SystemKind { kLowCoherence, kCoherent };

template <class E>
using Words = std::vector<std::pair<const char*, E>>;

/// The words of E; the argument only says which enumeration.
const Words<SketchFamily>& words_of(SketchFamily);
const Words<SketchHash>& words_of(SketchHash);
const Words<InputBlocks>& words_of(InputBlocks);
const Words<SketchPrecision>& words_of(SketchPrecision);
const Words<SketchRounding>& words_of(SketchRounding);
const Words<ReducePrecision>& words_of(ReducePrecision);
const Words<ScalingChoice>& words_of(ScalingChoice);
const Words<SolveMethod>& words_of(SolveMethod);
const Words<PreconditionerChoice>& words_of(PreconditionerChoice);
const Words<ReducedSolverChoice>& words_of(ReducedSolverChoice);
const Words<IoChoice>& words_of(IoChoice);
const Words<DataPrecision>& words_of(DataPrecision);
const Words<RankPolicy>& words_of(RankPolicy);
const Words<BackendChoice>& words_of(BackendChoice);
const Words<ReduceChoice>& words_of(ReduceChoice);
const Words<KernelChoice>& words_of(KernelChoice);
const Words<ResidencyChoice>& words_of(ResidencyChoice);
const Words<SyntheticKind>& words_of(SyntheticKind);
const Words<BenchFamily>& words_of(BenchFamily);
const Words<BenchKernel>& words_of(BenchKernel);
const Words<BenchRoute>& words_of(BenchRoute);
const Words<StudyFamily>& words_of(StudyFamily);
const Words<StudyTask>& words_of(StudyTask);
const Words<HeadRows>& words_of(HeadRows);
const Words<SystemKind>& words_of(SystemKind);

/// "permuted"
template <class E>
auto to_word(E value) -> decltype(words_of(value).front().first) {
  for (const auto& [word, meaning] : words_of(value)) {
    if (meaning == value) return word;
  }
  return "";
}

}  // namespace tallsketch
