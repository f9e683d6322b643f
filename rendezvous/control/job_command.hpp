// JobCommand and NodeTrait are what nodes say of themselves to be compared: the command of their workers, and
// traits. Plain values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/codec/description.hpp"

namespace ddprun {
inline namespace job {

// Digest tells apart texts that need not be sent whole (FNV-1a, 64 bits). No protection against an attacker
// who wants two texts to be taken for one. Pure.
class Digest {
  public:
    void add(std::string_view bytes) {
        for (const char byte : bytes) value_ = (value_ ^ static_cast<unsigned char>(byte)) * kPrime;
    }
    std::uint64_t value() const { return value_; }

  private:
    static constexpr std::uint64_t kPrime = 1099511628211ULL;
    std::uint64_t value_ = 14695981039346656037ULL;
};

// kMaxCommandShown: bytes of a command that are shown where two of them differ.
inline constexpr std::size_t kMaxCommandShown = 300;
// kMaxJobCommandText: bytes of a command that travel for that.
inline constexpr std::size_t kMaxJobCommandText = 4096;

// JobCommand: what an agent's workers run, to be compared between nodes and shown when it differs. Pure.
struct JobCommand {
    std::string text;          // as it could be typed into a shell, cut at kMaxJobCommandText
    std::uint64_t digest = 0;  // of the program, script or module, which nodes must have alike (FNV-1a)
    std::uint64_t whole = 0;   // of all words
};
BOOST_DESCRIBE_STRUCT(JobCommand, (), (text, digest, whole))

// Describes the program and its arguments, before ${local_rank} is filled in. `program`: the words that say
// what is run; empty: all do. `shown`: the words as others may see them; empty: as they are.
JobCommand describe_command(const std::vector<std::string>& words,
                            const std::vector<std::string>& program = {},
                            const std::vector<std::string>& shown = {});

// Returns the command from a little before it begins to differ from the other; at most kMaxCommandShown bytes
// and marks for what is left out.
std::string shown_beside(const JobCommand& command, const JobCommand& other);

// Returns for each command the words that not all of them have, with the option before such a word; at most
// kMaxCommandShown bytes.
std::vector<std::string> differing_words(const std::vector<const JobCommand*>& commands);

// kMaxNodeTraits: traits that one node may tell, so that its Hello fits its frame.
inline constexpr std::size_t kMaxNodeTraits = 128;
inline constexpr std::size_t kMaxTraitName = 64;
inline constexpr std::size_t kMaxTraitValue = 120;

// NodeTrait: a setting of a node that should be the same on all nodes of a job. Plain values; admission.hpp
// compares them.
struct NodeTrait {
    std::string name;
    std::string value;
    bool of_program = false;  // may differ where programs may (--allow-different)
};
BOOST_DESCRIBE_STRUCT(NodeTrait, (), (name, value, of_program))
constexpr std::size_t limit_of(Of<&NodeTrait::name>) { return kMaxTraitName; }
constexpr std::size_t limit_of(Of<&NodeTrait::value>) { return kMaxTraitValue; }

// hidden_value() stands for a value that others compare and may not see, with its digest; is_hidden_value()
// knows it again. A digest can be guessed from, so that neither is shown.
std::string hidden_value(std::uint64_t digest);
bool is_hidden_value(std::string_view value);

}  // namespace job
}  // namespace ddprun
