// NodeTrait: something of a node that should be the same on all nodes of a job. Plain values; node_differences.hpp
// compares them.
#pragma once

#include <cstddef>
#include <string>

#include "rendezvous/codec/description.hpp"

namespace ddprun::inline job {

// What one node may tell of itself, so that its Hello fits its frame.
inline constexpr std::size_t kMaxNodeTraits = 128;
inline constexpr std::size_t kMaxTraitName = 64;
inline constexpr std::size_t kMaxTraitValue = 120;

struct NodeTrait {
    std::string name;
    std::string value;
    bool of_program = false;  // may differ where programs may (--allow-different)
};
BOOST_DESCRIBE_STRUCT(NodeTrait, (), (name, value, of_program))
constexpr std::size_t limit_of(Of<&NodeTrait::name>) { return kMaxTraitName; }
constexpr std::size_t limit_of(Of<&NodeTrait::value>) { return kMaxTraitValue; }

}  // namespace ddprun::inline job
