#include "src/choices.h"

namespace tallsketch {

const Words<SketchFamily>& words_of(SketchFamily) {
  static const Words<SketchFamily> words = {{"sparsestack", SketchFamily::kSparseStack},
                                            {"blockperm", SketchFamily::kBlockPerm}};
  return words;
}

const Words<SketchHash>& words_of(SketchHash) {
  static const Words<SketchHash> words = {{"permuted", SketchHash::kPermuted},
                                          {"independent", SketchHash::kIndependent}};
  return words;
}

const Words<InputBlocks>& words_of(InputBlocks) {
  static const Words<InputBlocks> words = {{"interleaved", InputBlocks::kInterleaved},
                                           {"contiguous", InputBlocks::kContiguous}};
  return words;
}

const Words<SketchPrecision>& words_of(SketchPrecision) {
  static const Words<SketchPrecision> words = {{"fp32", SketchPrecision::kFp32},
                                               {"fp16", SketchPrecision::kFp16},
                                               {"bf16", SketchPrecision::kBf16},
                                               {"fp64", SketchPrecision::kFp64}};
  return words;
}

const Words<SketchRounding>& words_of(SketchRounding) {
  static const Words<SketchRounding> words = {{"nearest", SketchRounding::kNearest},
                                              {"stochastic", SketchRounding::kStochastic},
                                              {"dither", SketchRounding::kDither}};
  return words;
}

const Words<ReducePrecision>& words_of(ReducePrecision) {
  static const Words<ReducePrecision> words = {{"fp32", ReducePrecision::kFp32}, {"fp16", ReducePrecision::kFp16}};
  return words;
}

const Words<ScalingChoice>& words_of(ScalingChoice) {
  static const Words<ScalingChoice> words = {{"auto", ScalingChoice::kAuto}, {"none", ScalingChoice::kNone}};
  return words;
}

const Words<SolveMethod>& words_of(SolveMethod) {
  static const Words<SolveMethod> words = {{"refine", SolveMethod::kRefine},
                                           {"sketch-solve", SolveMethod::kSketchSolve}};
  return words;
}

const Words<PreconditionerChoice>& words_of(PreconditionerChoice) {
  static const Words<PreconditionerChoice> words = {{"auto", PreconditionerChoice::kAuto},
                                                    {"sketch", PreconditionerChoice::kSketch},
                                                    {"gram", PreconditionerChoice::kGram}};
  return words;
}

const Words<ReducedSolverChoice>& words_of(ReducedSolverChoice) {
  static const Words<ReducedSolverChoice> words = {{"auto", ReducedSolverChoice::kAuto},
                                                   {"qr", ReducedSolverChoice::kQr},
                                                   {"cholesky", ReducedSolverChoice::kCholesky},
                                                   {"svd", ReducedSolverChoice::kSvd}};
  return words;
}

const Words<IoChoice>& words_of(IoChoice) {
  static const Words<IoChoice> words = {
      {"auto", IoChoice::kAuto}, {"mpio", IoChoice::kMpio}, {"direct", IoChoice::kDirect}};
  return words;
}

const Words<DataPrecision>& words_of(DataPrecision) {
  static const Words<DataPrecision> words = {{"stored", DataPrecision::kStored}, {"fp32", DataPrecision::kFp32}};
  return words;
}

const Words<RankPolicy>& words_of(RankPolicy) {
  static const Words<RankPolicy> words = {{"error", RankPolicy::kError}, {"min-norm", RankPolicy::kMinNorm}};
  return words;
}

const Words<BackendChoice>& words_of(BackendChoice) {
  static const Words<BackendChoice> words = {
      {"auto", BackendChoice::kAuto}, {"cuda", BackendChoice::kCuda}, {"host", BackendChoice::kHost}};
  return words;
}

const Words<ReduceChoice>& words_of(ReduceChoice) {
  static const Words<ReduceChoice> words = {{"nccl", ReduceChoice::kNccl}, {"mpi", ReduceChoice::kMpi}};
  return words;
}

const Words<ResidencyChoice>& words_of(ResidencyChoice) {
  static const Words<ResidencyChoice> words = {{"auto", ResidencyChoice::kAuto},
                                               {"device", ResidencyChoice::kDevice},
                                               {"host", ResidencyChoice::kHost},
                                               {"file", ResidencyChoice::kFile}};
  return words;
}

const Words<SyntheticKind>& words_of(SyntheticKind) {
  static const Words<SyntheticKind> words = {
      {"gaussian", SyntheticKind::kGaussian},      {"coherent", SyntheticKind::kCoherent},
      {"coordinate", SyntheticKind::kCoordinate},  {"lowrank", SyntheticKind::kLowRank},
      {"illcond", SyntheticKind::kIllConditioned}, {"uniform", SyntheticKind::kUniform}};
  return words;
}

const Words<KernelChoice>& words_of(KernelChoice) {
  static const Words<KernelChoice> words = {{"auto", KernelChoice::kAuto},
                                            {"strip", KernelChoice::kStrip},
                                            {"scatter", KernelChoice::kScatter},
                                            {"flash", KernelChoice::kFlash}};
  return words;
}

const Words<BenchFamily>& words_of(BenchFamily) {
  static const Words<BenchFamily> words = {{"sparsestack", BenchFamily::kSparseStack},
                                           {"blockperm", BenchFamily::kBlockPerm},
                                           {"flashblockrow", BenchFamily::kFlashBlockRow}};
  return words;
}

const Words<BenchKernel>& words_of(BenchKernel) {
  static const Words<BenchKernel> words = {{"auto", BenchKernel::kAuto},       {"strip", BenchKernel::kStrip},
                                           {"scatter", BenchKernel::kScatter}, {"flash", BenchKernel::kFlash},
                                           {"spmm", BenchKernel::kSpmm},       {"gaussian", BenchKernel::kGaussian}};
  return words;
}

const Words<BenchRoute>& words_of(BenchRoute) {
  static const Words<BenchRoute> words = {{"refine", BenchRoute::kRefine},
                                          {"refine-sketch", BenchRoute::kRefineSketch},
                                          {"refine-gram", BenchRoute::kRefineGram},
                                          {"sketch-cholesky", BenchRoute::kSketchCholesky},
                                          {"sketch-qr", BenchRoute::kSketchQr},
                                          {"normal-equations", BenchRoute::kNormalEquations},
                                          {"qr", BenchRoute::kQr}};
  return words;
}

const Words<StudyFamily>& words_of(StudyFamily) {
  static const Words<StudyFamily> words = {{"sparsestack", StudyFamily::kSparseStack},
                                           {"blockperm", StudyFamily::kBlockPerm},
                                           {"flashblockrow", StudyFamily::kFlashBlockRow},
                                           {"gaussian", StudyFamily::kGaussian}};
  return words;
}
const Words<StudyTask>& words_of(StudyTask) {
  static const Words<StudyTask> words = {
      {"gram", StudyTask::kGram}, {"ose", StudyTask::kOse}, {"ridge", StudyTask::kRidge}, {"solve", StudyTask::kSolve}};
  return words;
}
const Words<HeadRows>& words_of(HeadRows) {
  static const Words<HeadRows> words = {{"first", HeadRows::kFirst}, {"random", HeadRows::kRandom}};
  return words;
}
const Words<SystemKind>& words_of(SystemKind) {
  static const Words<SystemKind> words = {{"low-coherence", SystemKind::kLowCoherence},
                                          {"coherent", SystemKind::kCoherent}};
  return words;
}

}  // namespace tallsketch
