// A struct with a member of every kind that the codecs know.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "rendezvous/codec/description.hpp"
#include "tests/support/random_values.hpp"

namespace ddprun {

enum class Colour : std::uint8_t { red = 3, green = 5, blue = 200 };
BOOST_DESCRIBE_ENUM(Colour, red, green, blue)

struct Part {
    std::string name;
    int size = 0;
    bool operator==(const Part&) const = default;
};
BOOST_DESCRIBE_STRUCT(Part, (), (name, size))

struct Whole {
    bool flag = false;
    std::int8_t small = 0;
    int number = 0;
    std::int64_t large = 0;
    std::uint64_t unsigned_large = 0;
    Colour colour = Colour::red;
    std::string text;
    std::optional<int> maybe;
    std::optional<Part> maybe_part;
    Part part;
    std::vector<int> numbers;
    std::vector<std::string> texts;
    std::vector<Part> parts;
    bool operator==(const Whole&) const = default;
};
BOOST_DESCRIBE_STRUCT(Whole, (),
                      (flag, small, number, large, unsigned_large, colour, text, maybe, maybe_part, part,
                       numbers, texts, parts))

}  // namespace ddprun
