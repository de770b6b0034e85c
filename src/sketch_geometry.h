// How well a sketch S keeps the lengths in a subspace: singular values of S U, and the coherences that theory asks for.
// Pure, FP64. Called by the geometry study; rank 0 only.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/sketch_spec.h"

namespace tallsketch {

class RowSource;

/// Singular values of S U for an orthonormal U (m, n), their extremes; all 1 if S were an isometry.
struct SketchGeometry {
  double smallest = 0, largest = 0;

  /// max |sigma^2 - 1|: the distortion of the subspace, ||(S U)^T S U - I||_2.
  double distortion() const;
  /// max |sigma - 1|: the same extremes as lengths, not squares; paper F's figures agree with this one.
  double length_distortion() const;
  /// Whether a direction of the subspace is lost: what remains of it is rounding.
  bool loses_rank() const { return smallest < 1e-6; }
};

/// sketch  in (d, cols) row-major, unscaled; its first n columns are S U / scale
/// Errors  kNonFinite for an overflowed sketch; kMemory for sizes beyond LAPACK's
/// Cost    LAPACK dgesdd, values only: O(d n^2)
SketchGeometry measure_geometry(const std::vector<double>& sketch, std::int64_t d, std::int64_t n, std::int64_t cols,
                                double scale);

/// The yardstick: S dense with entries N(0, 1/d). Its S U is itself (d, n) with entries N(0, 1/d) whatever U is, because
/// U is orthonormal; so no S is made.
SketchGeometry gaussian_geometry(std::int64_t d, std::int64_t n, std::uint64_t seed);

/// BlockPerm's coherences of U: how much of one direction lies in one input block, or in the neighbours of one output
/// block. Both lie between 1 (evenly spread) and M; the second governs the sketch rows that BlockPerm needs.
/// Source: paper B, definition 3.2, definition 6.1 and theorem 6.2
class BlockCoherence {
 public:
  /// Reads U once. spec: BlockPerm; of it count d, B_r, kappa and the kind of input blocks, not the seed.
  /// Cost: m n^2 operations, 8 M n^2 bytes; each norm below M eigenvalues of (n, n) matrices, O(M n^3)
  BlockCoherence(RowSource& basis, const SketchSpec& spec);

  /// M max_h ||U^(h)||^2, over input blocks h.
  double of_blocks() const;
  /// (M / kappa) max_g ||U_N(g)||^2, over output blocks g and their kappa neighbours under the spec's wiring.
  double of_neighbourhoods(const SketchSpec& spec) const;

 private:
  std::int64_t n_, blocks_;
  std::vector<double> gram_;  // (M, n, n): U^(h)^T U^(h), upper triangles
};

}  // namespace tallsketch
