#include "launcher/look/python_lines.hpp"

#include <array>
#include <string>

#include "rendezvous/text/split.hpp"
#include "rendezvous/text/whole_number.hpp"
#include "tests/launcher/look/other_process.hpp"
#include "tests/launcher/look/python_program.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

using Form = PythonLayout::LineTable;

int line_of(Form form, const std::vector<int>& table, std::int64_t instruction) {
    std::vector<std::byte> bytes;
    for (const int byte : table) bytes.push_back(static_cast<std::byte>(byte));
    return line_at(form, bytes, 100, instruction);
}

std::vector<std::byte> from_hex(std::string_view text) {
    std::vector<std::byte> bytes;
    for (; text.size() >= 2; text.remove_prefix(2))
        bytes.push_back(static_cast<std::byte>(whole_number<int>(text.substr(0, 2), 0, 255, 16).value_or(0)));
    return bytes;
}

}  // namespace

TEST_CASE("lines of steps of bytes and lines, to 3.9") {
    const std::vector<int> table = {0, 1, 6, 2, 4, 0xff, 255, 0, 1, 1};
    CHECK(line_of(Form::steps, table, -1) == 100);
    CHECK(line_of(Form::steps, table, 0) == 101);
    CHECK(line_of(Form::steps, table, 5) == 101);
    CHECK(line_of(Form::steps, table, 6) == 103);
    CHECK(line_of(Form::steps, table, 10) == 102);
    CHECK(line_of(Form::steps, table, 265) == 102);
    CHECK(line_of(Form::steps, table, 266) == 103);
    CHECK(line_of(Form::steps, {}, 4) == 100);
}

TEST_CASE("lines of ranges, of 3.10") {
    const std::vector<int> table = {4, 1, 2, 0x80, 6, 0xfe};
    CHECK(line_of(Form::ranges, table, 0) == 101);
    CHECK(line_of(Form::ranges, table, 4) == 0);
    CHECK(line_of(Form::ranges, table, 6) == 99);
    CHECK(line_of(Form::ranges, table, 12) == 100);
}

TEST_CASE("lines of locations, from 3.11 on, of every kind") {
    // A short one; one with columns and a line more; no columns, 2 lines less; long, 70 lines more; none.
    const std::vector<int> table = {
        0x80 | 0 << 3, 7, 0x80 | 11 << 3 | 1, 4, 9, 0x80 | 13 << 3, 5, 0x80 | 14 << 3, 0x40 | 12, 2, 0, 1, 1,
        0x80 | 15 << 3};
    CHECK(line_of(Form::locations, table, -2) == 100);
    CHECK(line_of(Form::locations, table, 0) == 100);
    CHECK(line_of(Form::locations, table, 2) == 101);
    CHECK(line_of(Form::locations, table, 4) == 101);
    CHECK(line_of(Form::locations, table, 6) == 99);
    CHECK(line_of(Form::locations, table, 8) == 169);
    CHECK(line_of(Form::locations, table, 10) == 0);
    CHECK(line_of(Form::locations, table, 12) == 100);
}

TEST_CASE("lines of tables that are cut, or lead below 1 and above the largest number") {
    CHECK(line_of(Form::steps, {2}, 4) == 100);
    CHECK(line_of(Form::ranges, {2}, 4) == 100);
    CHECK(line_of(Form::steps, {0, 0x80}, 4) == 0);
    CHECK(line_of(Form::locations, {0x80 | 14 << 3}, 0) == 100);
    CHECK(line_of(Form::locations, {0x80 | 13 << 3, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x3f}, 0) == 0);
}

TEST_CASE("lines of the standard library as its own interpreter has them") {
    for (const auto& python : pythons()) {
        OtherProcess program({python, DDPRUN_LINE_TABLES});
        int compared = 0;
        for (auto text = program.line(); !text.empty(); text = program.line()) {
            const auto words = split_at(text, ' ');
            const Form form = words[0] == "steps"    ? Form::steps
                              : words[0] == "ranges" ? Form::ranges
                                                     : Form::locations;
            const auto first = whole_number<int>(words[1]).value_or(0);
            const auto table = from_hex(words[2]);
            for (std::size_t i = 3; i < words.size(); ++i) {
                const auto parts = split_at(words[i], ':');
                const int line = line_at(form, table, first, whole_number<int>(parts[0]).value_or(-1));
                ++compared;
                if (line == whole_number<int>(parts[1])) continue;
                FAIL_CHECK(python << ": " << line << " is told for " << words[i] << " of " << words[0] << " "
                                  << words[2]);
            }
        }
        INFO(python);
        CHECK(compared > 2000);
    }
}

}  // namespace ddprun
