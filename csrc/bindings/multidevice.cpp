// The multi-device names that clients import (spec/api.md 5); the single-device part of their meaning.
#include <bindings/bindings.h>

#include <base/error.h>

#include <algorithm>
#include <functional>

namespace nvfuser::python {

namespace {

// A mesh of device ids, row-major.
struct DeviceMesh {
  std::vector<int64_t> devices;
  std::vector<int64_t> shape;

  std::string toString() const {
    size_t next = 0;
    std::function<std::string(size_t)> level = [&](size_t dim) -> std::string {
      std::string out = "{";
      for (int64_t i = 0; i < shape[dim]; ++i) {
        out += i == 0 ? "" : " ";
        out += dim + 1 == shape.size() ? std::to_string(devices[next++]) : level(dim + 1);
      }
      return out + "}";
    };
    return "DeviceMesh" + (shape.empty() ? std::string("{}") : level(0));
  }
};

DeviceMesh makeMesh(py::object devices) {
  DeviceMesh mesh;
  if (py::hasattr(devices, "tolist")) {
    for (py::handle n : devices.attr("shape")) {
      mesh.shape.push_back(n.cast<int64_t>());
    }
    devices = devices.attr("flatten")().attr("tolist")();
  }
  for (py::handle d : devices) {
    mesh.devices.push_back(d.cast<int64_t>());
  }
  if (mesh.shape.empty()) {
    mesh.shape.push_back(static_cast<int64_t>(mesh.devices.size()));
  }
  std::vector<int64_t> sorted = mesh.devices;
  std::sort(sorted.begin(), sorted.end());
  NVF_CHECK(
      std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end(),
      "DeviceMesh: device ids must be unique");
  return mesh;
}

} // namespace

void bindMultidevice(py::module_& m) {
  auto multi = m.def_submodule("multidevice", "Meshes of devices and sharding.");
  py::class_<DeviceMesh>(multi, "DeviceMesh", "Device ids in a grid of any rank.")
      .def(py::init(&makeMesh), py::arg("devices"))
      .def_property_readonly(
          "size", [](const DeviceMesh& mesh) { return mesh.devices.size(); })
      .def_property_readonly("shape", [](const DeviceMesh& mesh) { return mesh.shape; })
      .def("__repr__", &DeviceMesh::toString);
}

} // namespace nvfuser::python
