#include "launcher/look/python_objects.hpp"

#include <cstring>
#include <string_view>

#include "tests/launcher/look/memory_image.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

constexpr std::uint32_t kPython312 = 0x030c01f0;
constexpr std::uintptr_t kFrame = 0x10000, kCode = 0x20000, kType = 0x30000, kTypeName = 0x31000,
                         kFunction = 0x40000, kFile = 0x50000, kLines = 0x60000;
constexpr std::uint32_t kAscii = 1 << 2 | 1 << 5 | 1 << 6, kLatin = 1 << 2 | 1 << 5, kTwo = 2 << 2 | 1 << 5,
                        kFour = 4 << 2 | 1 << 5;

// A frame of 3.12 that runs f of a.py, from line 7 on, in memory of the test's own.
struct SmallPython {
    PythonLayout layout = *python_layout(kPython312, false, {}).layout;
    MemoryImage memory;

    SmallPython() {
        put<std::uintptr_t>(kFrame + layout.frame_previous, 0x1234);
        put<std::uintptr_t>(kFrame + layout.frame_code, kCode);
        put<std::uintptr_t>(kFrame + layout.frame_position, kCode + *layout.code_instructions + 2);
        put<std::uint64_t>(kFrame + *layout.frame_owner, 0);
        put<std::uintptr_t>(kCode + 8, kType);
        put<std::uintptr_t>(kCode + layout.code_file, kFile);
        put<std::uintptr_t>(kCode + layout.code_name, kFunction);
        put<std::uintptr_t>(kCode + layout.code_lines, kLines);
        put<std::int32_t>(kCode + layout.code_first_line, 7);
        put<std::uintptr_t>(kType + 24, kTypeName);
        put_bytes(kTypeName, std::string_view("code", 5));
        put_text(kFunction, kAscii, 1, "f");
        put_text(kFile, kAscii, 4, "a.py");
        put<std::uint64_t>(kLines + 16, 4);
        put_bytes(kLines + 32,
                  std::string_view("\x80\x07\xe8\x03", 4));  // two bytes of the first line; of the one before
    }

    void put_bytes(std::uintptr_t address, std::string_view bytes) {
        auto& piece = memory.pieces[address & ~std::uintptr_t{0xffff}];
        const std::size_t begin = address & 0xffff;
        if (piece.size() < begin + bytes.size()) piece.resize(begin + bytes.size());
        std::memcpy(&piece[begin], bytes.data(), bytes.size());
    }

    template <class T>
    void put(std::uintptr_t address, T value) {
        put_bytes(address, std::string_view(reinterpret_cast<const char*>(&value), sizeof value));
    }

    void put_text(std::uintptr_t address, std::uint32_t state, std::uint64_t count, std::string_view bytes) {
        put<std::uint64_t>(address + 16, count);
        put<std::uint64_t>(address + layout.text_state, state);
        put_bytes(address + ((state & 1 << 6) != 0 ? layout.ascii_text : layout.other_text), bytes);
    }

    std::optional<Frame> told() const {
        PythonObjects objects(memory, layout);
        const auto frame = objects.frame(kFrame);
        return frame ? objects.told(*frame) : std::nullopt;
    }

    std::optional<std::string> text(std::uint32_t state, std::uint64_t count, std::string_view bytes) {
        put_text(kFunction, state, count, bytes);
        return PythonObjects(memory, layout).text(kFunction);
    }
};

}  // namespace

TEST_CASE("Python's objects: a frame, and marks of the interpreter's own") {
    SmallPython python;
    CHECK(python.told() == Frame{"f", "a.py", 6, false});
    PythonObjects objects(python.memory, python.layout);
    CHECK(objects.frame(kFrame)->previous == 0x1234);
    CHECK(objects.frame(kFrame)->is_call);
    CHECK_FALSE(objects.frame(0).has_value());
    CHECK_FALSE(objects.frame(0x999).has_value());
    python.put<std::uint64_t>(kFrame + *python.layout.frame_owner, 3);
    CHECK_FALSE(objects.frame(kFrame)->is_call);
}

TEST_CASE("Python's objects: a reference may be marked in its lowest bits") {
    SmallPython python;
    for (const std::uintptr_t tag : {1, 2, 3}) {
        python.put<std::uintptr_t>(kFrame + python.layout.frame_code, kCode | tag);
        CHECK(python.told() == Frame{"f", "a.py", 6, false});
    }
}

TEST_CASE("Python's objects: what is no code object is no frame, although all else is sound") {
    SmallPython python;
    for (const auto name :
         {std::string_view("cell\0", 5), std::string_view("codes", 5), std::string_view("cod\0e", 5)}) {
        python.put_bytes(kTypeName, name);
        CHECK_FALSE(python.told().has_value());
    }
}

TEST_CASE("Python's objects: a table of lines that cannot be read") {
    SmallPython python;
    python.put<std::uint64_t>(kLines + 16, 500);
    CHECK(python.told() == Frame{"f", "a.py", 7, false});
    python.put<std::uint64_t>(kLines + 16, ~std::uint64_t{0});
    CHECK(python.told() == Frame{"f", "a.py", 7, false});
}

TEST_CASE("Python's objects: texts of every width, and characters that are none") {
    SmallPython python;
    CHECK(python.text(kAscii, 3, "abc") == "abc");
    CHECK(python.text(kAscii, 0, "abc") == "");
    CHECK(python.text(kLatin, 2,
                      "\xfc"
                      "b") ==
          "\u00fc"
          "b");
    CHECK(python.text(kTwo, 3, std::string_view("\xfc\0\xac\x20\x41\0", 6)) == "\u00fc\u20acA");
    CHECK(python.text(kTwo, 2, std::string_view("\x00\xd8\xff\xdf", 4)) == "\ufffd\ufffd");
    CHECK(python.text(kFour, 3, std::string_view("\x23\xd5\x01\0\0\0\x11\0\xff\xff\xff\x7f", 12)) ==
          "\U0001d523\ufffd\ufffd");
    CHECK_FALSE(python.text(kAscii, 500, "abc").has_value());
    CHECK_FALSE(python.text(kAscii & ~(1U << 5), 3, "abc").has_value());
    CHECK_FALSE(python.text(3 << 2 | 1 << 5, 3, "abc").has_value());
    CHECK_FALSE(python.text(2 << 2 | 1 << 5 | 1 << 6, 3, "abcabc").has_value());
}

TEST_CASE("Python's objects: of long texts the beginning") {
    SmallPython python;
    const std::string characters(5 * PythonObjects::kMaxName, '\x7f');
    CHECK(python.text(kAscii, 5 * PythonObjects::kMaxName, characters) ==
          characters.substr(0, PythonObjects::kMaxName));
    for (const std::uint32_t state : {kLatin, kTwo, kFour}) {
        const auto text = python.text(state, PythonObjects::kMaxName, characters);
        REQUIRE(text.has_value());
        CHECK(text->size() <= PythonObjects::kMaxName);
        CHECK(text->size() >= PythonObjects::kMaxName / 4);
    }
}

}  // namespace ddprun
