// Exchange schedule: who meets whom at which step so that every two ranks meet exactly once. Pure.
//
// In a step each rank has one partner, whose partner it is: the two swap blocks, both directions at once.
// With 2^k ranks the partner is rank xor step; else (step - rank) mod n, where a rank that is its own partner
// rests. Swapping, unlike sending round a ring, needs room for one block only when it is done in place.
//
// Source: R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of collective communication operations in
// MPICH", IJHPCA 19(1), 2005, doi 10.1177/1094342005051521.
#pragma once

namespace ddprun {

int exchange_steps(int world_size) noexcept;
// The rank itself when it rests.
int exchange_partner(int rank, int world_size, int step) noexcept;

}  // namespace ddprun
