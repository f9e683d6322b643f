#include "launcher/look/python_layout.hpp"

#include <cstring>
#include <vector>

#include "launcher/look/python_runtime.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

constexpr std::uint32_t kPython313 = 0x030d01f0;

// A table of 3.13 of which every offset is 8 times its place in its group.
std::vector<std::uint64_t> offsets_of_3_13(std::uint32_t version = kPython313) {
    std::vector<std::uint64_t> words = {0, version, 0};
    std::memcpy(words.data(), "xdebugpy", 8);
    for (const std::size_t count : {3, 13, 9, 6, 10, 2, 4, 3, 3, 3, 2, 3, 3, 4, 2}) {
        words.push_back(200);
        for (std::size_t place = 1; place < count; ++place) words.push_back(8 * place);
    }
    words.resize(kMaxOffsetWords);
    return words;
}

std::string why_not(std::uint32_t version, bool debug = false, std::span<const std::uint64_t> offsets = {}) {
    const auto answer = python_layout(version, debug, offsets);
    CHECK(answer.layout.has_value() == answer.why_not.empty());
    return answer.why_not;
}

}  // namespace

TEST_CASE("layouts of Python: which versions are known") {
    for (const std::uint32_t minor : {8, 9, 10, 11, 12}) CHECK(why_not(0x030000f0 | minor << 16) == "");
    CHECK(why_not(kPython313, false, offsets_of_3_13()) == "");
    CHECK(why_not(kPython313, true, offsets_of_3_13()) == "");
    CHECK(why_not(0x030712f0) == "the stacks of Python 3.7.18 are not known: only those of 3.8 to 3.15 are");
    CHECK(why_not(0x031000f0, false, offsets_of_3_13(0x031000f0)) ==
          "the stacks of Python 3.16.0 are not known: only those of 3.8 to 3.15 are");
    CHECK(why_not(0x020712f0) == "the stacks of Python 2.7.18 are not known: only those of 3.8 to 3.15 are");
    CHECK(why_not(0) != "");
    CHECK(why_not(0x030b00b3) == "the stacks of Python 3.11.0b3 are not known: it is no final release");
    CHECK(why_not(0x030d00c2, false, offsets_of_3_13(0x030d00c2)).ends_with("it is no final release"));
    CHECK(why_not(0x030b02f0, true) ==
          "the stacks of Python 3.11.2 are not known: it is a build for debugging");
}

TEST_CASE("layouts of Python 3.13 by its own table") {
    const auto layout = python_layout(kPython313, false, offsets_of_3_13()).layout;
    REQUIRE(layout.has_value());
    CHECK(layout->interpreters == 16);
    CHECK(layout->threads == 24);
    CHECK(layout->collecting == 4 * 8 + 8);
    CHECK(layout->thread_frame == 32);
    CHECK(layout->thread_native_id == 48);
    CHECK(layout->frame_owner == 40);
    CHECK(layout->code_instructions == 72);
    CHECK(layout->ascii_text == 24);
    CHECK(layout->other_text == 40);

    CHECK(why_not(kPython313).ends_with("its table of offsets is another's"));
    CHECK(why_not(kPython313, false, offsets_of_3_13(kPython313 + 0x100))
              .ends_with("its table of offsets is another's"));
    auto free_threaded = offsets_of_3_13();
    free_threaded[2] = 1;
    CHECK(
        why_not(kPython313, false, free_threaded).ends_with("it is a build without the interpreter's lock"));
    auto short_table = offsets_of_3_13();
    short_table.resize(40);
    CHECK(why_not(kPython313, false, short_table).ends_with("its table of offsets makes no sense"));
}

TEST_CASE("layouts of Python 3.13: an offset that leads out of its structure is refused, wherever it is") {
    const auto sound = offsets_of_3_13();
    int refused = 0;
    for (std::size_t word = 3; word < sound.size(); ++word) {
        for (const std::uint64_t bad : {std::uint64_t{200}, ~std::uint64_t{0}, std::uint64_t{1} << 40}) {
            auto table = sound;
            table[word] = bad;
            const auto answer = python_layout(kPython313, false, table);
            if (!answer.layout) ++refused;
            if (!answer.layout) continue;
            const auto& layout = *answer.layout;
            CHECK(layout.frame_owner.value_or(0) < PythonLayout::kMaxObject);
            CHECK(layout.code_instructions.value_or(0) <= PythonLayout::kMaxObject);
            for (const std::size_t offset : {layout.next_thread, layout.thread_frame, layout.thread_pthread,
                                             layout.frame_previous, layout.frame_position, layout.code_file,
                                             layout.code_lines, layout.code_first_line, layout.text_state})
                CHECK(offset < PythonLayout::kMaxObject);
        }
    }
    CHECK(refused >= 2 * 22);  // as many offsets as are used
}

TEST_CASE("which files may be an interpreter, and of which version") {
    struct Row {
        const char* path;
        bool is_library;
        std::uint32_t version;
        bool is_debug_build;
    };
    for (const Row& row :
         {Row{"/usr/lib/libpython3.8.so.1.0", true, 0x0308fff0, false},
          Row{"/usr/lib/libpython3.12d.so.1.0 (deleted)", true, 0x030cfff0, true},
          Row{"/usr/lib/libpython3.so", true, 0, false}, Row{"/opt/bin/python3.11", false, 0x030bfff0, false},
          Row{"/opt/bin/python3.11 (deleted)", false, 0x030bfff0, false},
          Row{"/opt/bin/python3.9d", false, 0x0309fff0, true}, Row{"/opt/bin/python3", false, 0, false},
          Row{"python", false, 0, false}, Row{"/bin/python3.13t", false, 0x030dfff0, false},
          Row{"/bin/python3.1234", false, 0x037bfff0, false}}) {
        INFO(row.path);
        const auto name = interpreter_name(row.path);
        REQUIRE(name.has_value());
        CHECK(name->is_library == row.is_library);
        CHECK(name->version == row.version);
        CHECK(name->is_debug_build == row.is_debug_build);
    }
    for (const char* path : {"", "/", "/usr/bin/python2.7", "/usr/lib/libpython2.7.so", "/usr/bin/pythonic",
                             "/python3/x", "[heap]"})
        CHECK_FALSE(interpreter_name(path).has_value());
    CHECK(python_version_text(0x030bfff0) == "3.11");
    CHECK(python_version_text(0x030c01f0) == "3.12.1");
}

}  // namespace ddprun
