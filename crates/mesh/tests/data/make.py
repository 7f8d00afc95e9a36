"""Makes the meshes in this folder with Gmsh (`pip install gmsh`; made with 4.15.2)."""

import gmsh

gmsh.initialize()
gmsh.option.setNumber("General.Terminal", 0)
gmsh.option.setNumber("Mesh.MshFileVersion", 4.1)
occ = gmsh.model.occ


def write(name, size):
    occ.synchronize()
    gmsh.option.setNumber("Mesh.MeshSizeMin", size)
    gmsh.option.setNumber("Mesh.MeshSizeMax", size)
    gmsh.model.mesh.generate(2)
    gmsh.write(name)
    gmsh.model.remove()


# A plate of 3 x 1 with a round hole: its left third in quadrangles, the rest in triangles.
gmsh.model.add("plate")
left = occ.addRectangle(0, 0, 0, 1, 1)
right = occ.addRectangle(1, 0, 0, 2, 1)
occ.cut([(2, right)], [(2, occ.addDisk(2, 0.5, 0, 0.25, 0.25))])
occ.fragment([(2, left)], [(2, right)])
occ.synchronize()
gmsh.model.mesh.setTransfiniteSurface(left)
gmsh.model.mesh.setRecombine(2, left)
write("plate.msh", 0.2)

# The surface of a unit cube, whose six faces do not all run in the same sense.
gmsh.model.add("cube")
occ.addBox(0, 0, 0, 1, 1, 1)
write("cube.msh", 0.4)

# A sphere of radius 1, in triangles.
gmsh.model.add("sphere")
occ.addSphere(0, 0, 0, 1)
write("sphere.msh", 0.5)

gmsh.finalize()
