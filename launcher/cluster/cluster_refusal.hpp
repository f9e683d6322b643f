// The lines that refuse a start: which variable says what, and the way out. Pure.
#pragma once

#include <string>
#include <string_view>

#include "launcher/cluster/family.hpp"

namespace ddprun::inline launch {

// --scheduler names one that is not here.
std::string no_sign(std::string_view scheduler);

std::string contradiction(const Family& family, const std::string& conflict);

// Each task would be a job of its own; `launcher` is "a Slurm step".
std::string advice(std::string_view launcher, const Tasks& tasks);

// Of several hosts, or of one that is not this machine; empty: this machine is all of it.
std::string refused_allocation(const ClusterView& view, const Family& family, const FamilyFacts& facts);

std::string missing_fact(const Family& family, const FamilyFacts& facts, Fact fact);

std::string number_beyond(const Claim& number, const Claim& nodes);

}  // namespace ddprun::inline launch
