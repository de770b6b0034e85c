// Entries of any type as registers of doubles, for the host loops that widen while they read.
// Called by normal_product_host and host_gram, in functions with TALLSKETCH_VECTOR_CLONES.
#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/half.h"
#include "kernels/host_device.h"

namespace tallsketch::host {

constexpr int kLane = 4;  // doubles of a ymm register

/// A register of doubles, read and written at any address.
using Lanes = double __attribute__((vector_size(8 * kLane), aligned(8), may_alias));

/// Entries of 16 bits: binary16 widened by F16C, binary16 by integer arithmetic, bfloat16.
struct Half {
  std::uint16_t bits;
};
struct PortableHalf {
  std::uint16_t bits;
};
struct Bfloat16 {
  std::uint16_t bits;
};

/// Whether Half may be used. Loops compiled for AVX2 may take F16C for granted, those for the baseline may not, so that
/// clones alone do not decide.
inline bool processor_widens_halves() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("f16c") != 0;
#else
  return false;
#endif
}

inline __attribute__((always_inline)) double widen(float value) { return double{value}; }
inline __attribute__((always_inline)) double widen(double value) { return value; }
inline __attribute__((always_inline)) double widen(Half value) { return half_to_double(value.bits); }
inline __attribute__((always_inline)) double widen(PortableHalf value) { return half_to_double(value.bits); }
inline __attribute__((always_inline)) double widen(Bfloat16 value) { return bfloat16_to_double(value.bits); }

/// to = the kLane entries at an address.
inline __attribute__((always_inline)) void load(const double* from, Lanes& to) {
  to = *reinterpret_cast<const Lanes*>(from);
}
// Element by element: GCC 12 makes one instruction of it, but four of __builtin_convertvector, at half the speed.
template <class T>
inline __attribute__((always_inline)) void load(const T* from, Lanes& to) {
  to = Lanes{widen(from[0]), widen(from[1]), widen(from[2]), widen(from[3])};
}

using Floats = float __attribute__((vector_size(4 * kLane)));

inline __attribute__((always_inline)) void widen_floats(const Floats& from, Lanes& to) {
  to = Lanes{double{from[0]}, double{from[1]}, double{from[2]}, double{from[3]}};
}
inline __attribute__((always_inline)) void load(const Bfloat16* from, Lanes& to) {
  using Words = std::uint16_t __attribute__((vector_size(16)));
  std::uint64_t bits;
  std::memcpy(&bits, from, sizeof bits);
  using Pair = std::uint64_t __attribute__((vector_size(16)));
  const Pair pair{bits, 0};
  Words words;
  std::memcpy(&words, &pair, sizeof words);
  words = __builtin_shuffle(Words{}, words, Words{0, 8, 1, 9, 2, 10, 3, 11});  // zeros below: one instruction
  Floats floats;
  std::memcpy(&floats, &words, sizeof floats);
  widen_floats(floats, to);
}
#if defined(__x86_64__)
/// By assembler: the intrinsic function cannot be compiled into a clone for processors without F16C.
inline __attribute__((always_inline)) void load(const Half* from, Lanes& to) {
  using FourHalves = std::uint64_t __attribute__((may_alias));
  Floats floats;
  asm("vcvtph2ps %1, %0" : "=x"(floats) : "m"(*reinterpret_cast<const FourHalves*>(from)));
  widen_floats(floats, to);
}
#endif

}  // namespace tallsketch::host
