// The numbers of the vector exp and tanh, for every instruction set: forms that are bit-equal must
// not be able to differ in them.
#pragma once

namespace kvern::kernels::cpu {

inline constexpr float kLog2E = 1.44269504f;
// ln 2 in two parts; n times the first is exact for the n that occur.
inline constexpr float kLn2High = 0.693359375f, kLn2Low = -2.12194440e-4f;
// exp(r) - 1 = r + r^2 * polynomial for |r| <= ln2 / 2, highest power first: the one whose largest
// error there is least, 4e-9 of exp(r).
inline constexpr float kExpm1[] = {0x1.6a23c8p-10f, 0x1.123a20p-7f, 0x1.5558f4p-5f, 0x1.555492p-3f,
                                   0x1.fffffcp-2f};
// Below the first exp is 0, above the second infinity.
inline constexpr float kExpLowest = -105.0f, kExpHighest = 90.0f;
// Of 2|x|, from where on tanh is 1.
inline constexpr float kTanhFlat = 20.0f;

}  // namespace kvern::kernels::cpu
