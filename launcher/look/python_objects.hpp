// PythonObjects reads texts, code objects and frames of an interpreter that goes on meanwhile.
//
// What does not change in the life of an object is remembered by its address: each look needs a new
// PythonObjects.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "launcher/look/frame.hpp"
#include "launcher/look/memory_reader.hpp"
#include "launcher/look/python_layout.hpp"

namespace ddprun {
inline namespace launch {

class PythonObjects {
  public:
    // kMaxName: bytes of a function's or a file's name; what is behind them is left out.
    static constexpr std::size_t kMaxName = 4096;
    // kMaxLineTable: a function with a longer table is told with the line at which it begins; kMaxLineWork:
    // bytes of tables that are gone through, after which frames are told without lines.
    static constexpr std::size_t kMaxLineTable = 1024 * 1024;
    static constexpr std::size_t kMaxLineWork = 64 * 1024 * 1024;

    PythonObjects(const MemoryReader& memory, const PythonLayout& layout)
        : memory_(memory), layout_(layout) {}

    // PythonFrame is a link of the chain of frames.
    struct PythonFrame {
        std::uintptr_t previous = 0;
        std::uintptr_t code = 0;
        std::uint64_t position = 0;
        bool is_call = true;  // else a mark of the interpreter's own
    };

    // Returns nothing for what cannot be a frame.
    std::optional<PythonFrame> frame(std::uintptr_t address) const;

    // Returns what a person reads of the frame; nothing if its code is none.
    std::optional<Frame> told(const PythonFrame& frame);

    // Returns a text in UTF-8; nothing for what cannot be one.
    std::optional<std::string> text(std::uintptr_t address) const;

  private:
    struct Code {
        std::string function;
        std::string file;
        int first_line = 0;
        std::string lines;  // the table
    };

    const Code* code(std::uintptr_t address);
    std::optional<Code> read_code(std::uintptr_t address);
    bool is_code_type(std::uintptr_t type);
    std::optional<std::string> line_table(std::uintptr_t address) const;

    const MemoryReader& memory_;
    const PythonLayout& layout_;
    std::map<std::uintptr_t, std::optional<Code>> codes_;
    std::map<std::uintptr_t, std::optional<std::string>> files_;
    std::uintptr_t code_type_ = 0;
    std::size_t line_work_ = 0;
};

}  // namespace launch
}  // namespace ddprun
